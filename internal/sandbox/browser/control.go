package browser

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/url"
	"sync"
	"time"

	"hortus.dev/api"
)

const (
	// controlLife is how long a control lasts after the last input.
	controlLife = 30 * time.Second
	// maxInputs and maxText bound one request.
	maxInputs = 100
	maxText   = 10_000
)

// controls are who has the control over which browser.
type controls struct {
	now func() time.Time

	mu sync.Mutex
	of map[api.SandboxID]control
}

type control struct {
	token string
	ends  time.Time
}

func (c control) is(token string) bool {
	return subtle.ConstantTimeCompare([]byte(c.token), []byte(token)) == 1
}

// Take gives the control over a browser to one client, or keeps it for the one that has the token.
func (b *Browsers) Take(ctx context.Context, id api.SandboxID, token string) (api.BrowserControl, error) {
	if _, err := b.shown(ctx, id); err != nil { // also whether the caller may reach it
		return api.BrowserControl{}, err
	}
	return b.controls.take(id, token)
}

func (c *controls) take(id api.SandboxID, token string) (api.BrowserControl, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for other, has := range c.of { // those of sandboxes that have ended
		if !has.ends.After(now) {
			delete(c.of, other)
		}
	}
	has, taken := c.of[id]
	switch {
	case taken && !has.is(token):
		err := api.Errorf(api.KindConflict, "another client has the control over the browser until %s", has.ends.UTC().Format(time.TimeOnly+" MST")).
			WithHint("it ends %s after their last input", controlLife)
		return api.BrowserControl{}, err
	case !taken:
		has.token = rand.Text()
	}
	has.ends = now.Add(controlLife)
	c.of[id] = has
	return api.BrowserControl{Token: has.token, ExpiresAt: has.ends}, nil
}

// extend checks a token, and extends its control.
func (c *controls) extend(id api.SandboxID, token string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	has, ok := c.of[id]
	if !ok || !has.ends.After(c.now()) || !has.is(token) {
		return api.Errorf(api.KindDenied, "you have no control over the browser of sandbox %s, or no longer", id).WithHint("take it first")
	}
	has.ends = c.now().Add(controlLife)
	c.of[id] = has
	return nil
}

// Release gives a control back. One that is not there is no error.
func (b *Browsers) Release(id api.SandboxID, token string) {
	c := &b.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	if has, ok := c.of[id]; ok && has.is(token) {
		delete(c.of, id)
	}
}

// Input carries out inputs, in order.
func (b *Browsers) Input(ctx context.Context, id api.SandboxID, in api.BrowserInput) error {
	if !targetForm.MatchString(in.Target) {
		return api.Errorf(api.KindInvalid, "%.80q is not a tab", in.Target)
	}
	if len(in.Events) > maxInputs {
		return api.Errorf(api.KindInvalid, "%d inputs are too many: send %d at most", len(in.Events), maxInputs)
	}
	type command struct {
		method string
		params any
	}
	var all []command
	add := func(method string, params any) { all = append(all, command{method, params}) }
	for _, e := range in.Events {
		if len(e.Text)+len(e.Key)+len(e.Code) > maxText {
			return api.Errorf(api.KindInvalid, "a text has more than %d bytes", maxText)
		}
		mouse := func(kind string) {
			button := e.Button
			if button == "" {
				button = "none"
			}
			add("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": e.X, "y": e.Y, "deltaX": e.DX, "deltaY": e.DY, "button": button, "clickCount": e.Clicks, "modifiers": e.Modifiers})
		}
		switch e.Action {
		case api.BrowserMove:
			mouse("mouseMoved")
		case api.BrowserDown:
			mouse("mousePressed")
		case api.BrowserUp:
			mouse("mouseReleased")
		case api.BrowserWheel:
			mouse("mouseWheel")
		case api.BrowserKey:
			for _, kind := range []string{"keyDown", "keyUp"} {
				key := map[string]any{"type": kind, "key": e.Key, "code": e.Code, "windowsVirtualKeyCode": e.KeyCode, "modifiers": e.Modifiers}
				if kind == "keyDown" && e.Text != "" {
					key["text"] = e.Text
				}
				add("Input.dispatchKeyEvent", key)
			}
		case api.BrowserText:
			add("Input.insertText", map[string]any{"text": e.Text})
		case api.BrowserOpen:
			u, err := url.Parse(e.Text)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return api.Errorf(api.KindInvalid, "%.200q is not an address of a page", e.Text).WithHint("for example https://example.org/")
			}
			add("Page.navigate", map[string]any{"url": e.Text})
		case api.BrowserBack:
			add("Runtime.evaluate", map[string]any{"expression": "history.back()"})
		default:
			return api.Errorf(api.KindInvalid, "%.40q is no input", e.Action)
		}
	}
	if err := b.controls.extend(id, in.Token); err != nil {
		return err
	}
	s, err := b.connect(ctx, id, in.Target)
	if err != nil {
		return err
	}
	defer s.close()
	for _, c := range all {
		if err := s.do(ctx, c.method, c.params, nil); err != nil {
			return err
		}
	}
	return nil
}
