package http

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/browser"
)

// screens has the handlers of the browsers inside sandboxes.
type screens struct {
	sandboxes Sandboxes
	browsers  *browser.Browsers
	events    eventServer
	portURL   func(s api.Sandbox, port int) (api.PortURL, error)
}

func (d screens) browserRoutes() []Route {
	const one = "/v1/sandboxes/{id}/browser"
	return []Route{{
		Method: "POST", Pattern: one + "/url", Name: "browserURL", Role: api.RoleUser,
		Doc: "Make the URL at which a program, such as Playwright, reaches the browser inside the sandbox over the Chrome DevTools Protocol. It works once, for ten minutes. " +
			"The sandbox's ports must be private.",
		Out:     api.PortURL{},
		Handler: d.url,
	}, {
		Method: "GET", Pattern: one + "/screen", Name: "browserScreen", Role: api.RoleUser,
		Doc: "Follow what the browser inside the sandbox shows: pictures of the tab that was used last, each when the one before was taken. To look extends no deadline.",
		Out: api.BrowserFrame{}, OutType: typeEvents,
		Handler: d.screen,
	}, {
		Method: "POST", Pattern: one + "/control", Name: "takeBrowser", Role: api.RoleUser,
		Doc: "Take the control over the browser inside the sandbox, or keep it. One client at a time has it. It ends 30 seconds after the last input.",
		In:  api.TakeBrowser{}, Optional: true, Out: api.BrowserControl{},
		Handler: accept(http.StatusOK, decodeAny, func(r *http.Request, in api.TakeBrowser) (v api.BrowserControl, err error) {
			id, err := sandboxID(d.sandboxes)(r)
			if err != nil {
				return v, err
			}
			return d.browsers.Take(r.Context(), id, in.Token)
		}),
	}, {
		Method: "POST", Pattern: one + "/release", Name: "releaseBrowser", Role: api.RoleUser,
		Doc: "Give back the control over the browser inside the sandbox.",
		In:  api.TakeBrowser{}, Status: http.StatusNoContent,
		Handler: order(d.sandboxes, func(ctx context.Context, id api.SandboxID, in api.TakeBrowser) error {
			if _, err := d.sandboxes.Get(ctx, id); err != nil {
				return err
			}
			d.browsers.Release(id, in.Token)
			return nil
		}),
	}, {
		Method: "POST", Pattern: one + "/input", Name: "browserInput", Role: api.RoleUser,
		Doc: "Send inputs of mouse and keyboard to the browser inside the sandbox, as the client that has the control over it.",
		In:  api.BrowserInput{}, Status: http.StatusNoContent,
		Handler: order(d.sandboxes, func(ctx context.Context, id api.SandboxID, in api.BrowserInput) error {
			if _, err := d.sandboxes.Get(ctx, id); err != nil {
				return err
			}
			return d.browsers.Input(ctx, id, in)
		}),
	}}
}

// order serves a call about a sandbox that has a body, and nothing to say.
func order[In any](all Sandboxes, call func(context.Context, api.SandboxID, In) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in In
		if err := decode(w, r, &in); err != nil {
			return err
		}
		id, err := sandboxID(all)(r)
		if err == nil {
			err = call(r.Context(), id, in)
		}
		return done(w, err)
	}
}

// url makes the URL of the browser.
func (d screens) url(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxID(d.sandboxes)(r)
	var s api.Sandbox
	if err == nil {
		s, err = d.sandboxes.Get(r.Context(), id)
	}
	if err == nil && !s.PrivateTraffic {
		err = api.Errorf(api.KindConflict, "the ports of sandbox %s are not private: everybody who knows its ID could use its browser", id).
			WithHint("sandboxes of a template have private ports that was created with hortus template create browser --preset browser")
	}
	var path string
	if err == nil {
		path, err = d.browsers.Path(r.Context(), id)
	}
	var out api.PortURL
	if err == nil {
		out, err = d.portURL(s, api.BrowserPort)
	}
	if err != nil {
		return err
	}
	u, err := url.Parse(out.URL)
	if err != nil {
		return api.Errorf(api.KindInternal, "the URL of a port: %w", err)
	}
	u.Path = path
	if u.Scheme = "ws"; out.URL[:5] == "https" {
		u.Scheme = "wss"
	}
	out.URL = u.String()
	w.Header().Set("Cache-Control", "no-store")
	return reply(w, http.StatusOK, out, nil)
}

// screen streams what the browser shows. An error before the first picture is the answer; later ones end the stream.
func (d screens) screen(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxID(d.sandboxes)(r)
	if err == nil {
		_, err = d.sandboxes.Get(r.Context(), id)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	frames, ended := make(chan api.BrowserFrame), make(chan error, 1)
	go func() {
		ended <- d.browsers.Watch(ctx, id, func(f api.BrowserFrame) error {
			select {
			case frames <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	finished := false
	defer func() {
		if cancel(); !finished {
			<-ended
		}
	}()
	var out *eventStream
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for n := int64(1); ; n++ {
		select {
		case f := <-frames:
			if out == nil {
				ok := false
				if out, ok = d.events.open(w); !ok {
					return nil
				}
			}
			if out.send(strconv.FormatInt(n, 10), "frame", f) != nil {
				return nil
			}
		case err := <-ended:
			if finished = true; out == nil {
				return err
			}
			return nil
		case <-tick.C:
			if out != nil && out.comment("keepalive") != nil {
				return nil
			}
		}
	}
}
