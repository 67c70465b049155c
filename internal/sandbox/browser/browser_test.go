package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"hortus.dev/api"
)

const one = api.SandboxID("i0000000000000000001")

// fake is a browser with one tab.
type fake struct {
	list, version string
	// frames are what the tab shows, one after each acknowledgement.
	frames [][]byte

	mu   sync.Mutex
	said []string // methods of commands
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/json/version":
		fmt.Fprint(w, f.version)
		return
	case r.URL.Path == "/json/list":
		fmt.Fprint(w, f.list)
		return
	case !strings.HasPrefix(r.URL.Path, "/devtools/page/"):
		http.NotFound(w, r)
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	left := f.frames
	frame := func() {
		if len(left) > 0 {
			b, _ := json.Marshal(map[string]any{"data": left[0], "sessionId": 7, "metadata": map[string]any{"deviceWidth": 1280, "deviceHeight": 800}})
			left = left[1:]
			_ = c.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"method":"Page.screencastFrame","params":%s}`, b))
		}
	}
	for {
		_, b, err := c.Read(r.Context())
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(b, &m) != nil {
			return
		}
		f.mu.Lock()
		f.said = append(f.said, m.Method)
		f.mu.Unlock()
		_ = c.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"id":%d,"result":{}}`, m.ID))
		if m.Method == "Page.startScreencast" || m.Method == "Page.screencastFrameAck" {
			frame()
		}
	}
}

func (f *fake) commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, " ")
}

// open serves a fake, and returns what reaches it.
func open(t *testing.T, f *fake) *Browsers {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return New(Config{Dial: func(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
		if id != one || port != api.BrowserPort {
			return nil, api.Errorf(api.KindNotFound, "unknown sandbox %s", id)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
	}})
}

const tabs = `[{"id":"../x","type":"page","url":"a"},{"id":"BB","type":"browser_ui"},{"id":"AA","type":"page","title":"t","url":"http://a.example/"}]`

// TestWatch: pictures come in order, and each is asked for when the one before was taken. A tab with a name that is no name is
// left out.
func TestWatch(t *testing.T) {
	f := &fake{list: tabs, frames: [][]byte{[]byte("first"), []byte("second"), []byte("third")}}
	b := open(t, f)
	enough := errors.New("enough")
	var got []string
	err := b.Watch(t.Context(), one, func(frame api.BrowserFrame) error {
		if frame.Target != "AA" || frame.Title != "t" || frame.Width != 1280 || frame.Height != 800 {
			t.Errorf("%+v", frame)
		}
		if acks := strings.Count(f.commands(), "Ack"); acks != len(got) {
			t.Errorf("%d pictures were asked for before number %d was taken", acks, len(got)+1)
		}
		if got = append(got, string(frame.Image)); len(got) == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || strings.Join(got, " ") != "first second third" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestHostile: what claims to be a browser cannot fill memory, lead elsewhere, or reach another sandbox.
func TestHostile(t *testing.T) {
	big := &fake{list: tabs, frames: [][]byte{bytes.Repeat([]byte{1}, maxMessage)}}
	err := open(t, big).Watch(t.Context(), one, func(api.BrowserFrame) error { t.Error("a picture above the bound"); return nil })
	if api.KindOf(err) != api.KindUnavailable {
		t.Error(err)
	}
	for version, want := range map[string]string{
		`{"webSocketDebuggerUrl":"ws://localhost/devtools/browser/ab-12"}`: "/devtools/browser/ab-12",
		`{"webSocketDebuggerUrl":"ws://evil.example/devtools/browser/1"}`:  "/devtools/browser/1",
		`{"webSocketDebuggerUrl":"ws://localhost/devtools/browser/../x"}`:  "",
		`{"webSocketDebuggerUrl":"http://evil.example/"}`:                  "",
		`SSH-2.0`: "",
		`{"webSocketDebuggerUrl":"ws://a/devtools/browser/1","x":"` + strings.Repeat("x", maxList) + `"}`: "",
	} {
		got, err := open(t, &fake{version: version}).Path(t.Context(), one)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.80s: %q, %v", version, got, err)
		}
	}
	if _, err := open(t, big).Path(t.Context(), "i0000000000000000002"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another sandbox: %v", err)
	}
	if _, err := open(t, &fake{list: "[]"}).Take(t.Context(), one, ""); api.KindOf(err) != api.KindUnavailable || api.HintOf(err) != "" {
		t.Errorf("no tab: %v", err)
	}
}

// TestControl: one client at a time steers, until half a minute after its last input.
func TestControl(t *testing.T) {
	f := &fake{list: tabs}
	b := open(t, f)
	now := time.Now()
	b.controls.now = func() time.Time { return now }
	input := func(token string, events ...api.BrowserEvent) api.Kind {
		return api.KindOf(b.Input(t.Context(), one, api.BrowserInput{Token: token, Target: "AA", Events: events}))
	}
	move := api.BrowserEvent{Action: api.BrowserMove, X: 1, Y: 2}
	if k := input("", move); k != api.KindDenied {
		t.Errorf("without control: %s", k)
	}
	mine, err := b.Take(t.Context(), one, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take(t.Context(), one, ""); api.KindOf(err) != api.KindConflict {
		t.Errorf("two have the control: %v", err)
	}
	if k := input("guess", move); k != api.KindDenied {
		t.Errorf("with a guess: %s", k)
	}
	if f.commands() != "" {
		t.Errorf("the browser got %s", f.commands())
	}
	now = now.Add(controlLife - time.Second)
	if k := input(mine.Token, move, api.BrowserEvent{Action: api.BrowserKey, Key: "a", Text: "a"}, api.BrowserEvent{Action: api.BrowserOpen, Text: "https://a.example/"}); k != "" {
		t.Errorf("with the control: %s", k)
	}
	if got := f.commands(); got != "Input.dispatchMouseEvent Input.dispatchKeyEvent Input.dispatchKeyEvent Page.navigate" {
		t.Error(got)
	}
	// The input extended it; then it ends, and another takes it.
	now = now.Add(controlLife - time.Second)
	if _, err := b.Take(t.Context(), one, ""); api.KindOf(err) != api.KindConflict {
		t.Errorf("the input extended nothing: %v", err)
	}
	now = now.Add(2 * time.Second)
	if k := input(mine.Token, move); k != api.KindDenied {
		t.Errorf("after its end: %s", k)
	}
	theirs, err := b.Take(t.Context(), one, mine.Token)
	if err != nil || theirs.Token == mine.Token {
		t.Errorf("%+v, %v", theirs, err)
	}
	b.Release(one, mine.Token)
	if _, err := b.Take(t.Context(), one, ""); api.KindOf(err) != api.KindConflict {
		t.Errorf("somebody else released it: %v", err)
	}
	b.Release(one, theirs.Token)
	if _, err := b.Take(t.Context(), one, ""); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// TestInputs: only the known inputs reach the browser, all of a request or none.
func TestInputs(t *testing.T) {
	f := &fake{list: tabs}
	b := open(t, f)
	c, err := b.Take(t.Context(), one, "")
	if err != nil {
		t.Fatal(err)
	}
	move := api.BrowserEvent{Action: api.BrowserMove}
	for name, in := range map[string]api.BrowserInput{
		"a script":     {Target: "AA", Events: []api.BrowserEvent{move, {Action: api.BrowserOpen, Text: "javascript:alert(1)"}}},
		"a file":       {Target: "AA", Events: []api.BrowserEvent{move, {Action: api.BrowserOpen, Text: "file:///etc/passwd"}}},
		"a command":    {Target: "AA", Events: []api.BrowserEvent{move, {Action: "Runtime.evaluate"}}},
		"another path": {Target: "AA/../../json/close", Events: []api.BrowserEvent{move}},
		"too many":     {Target: "AA", Events: make([]api.BrowserEvent, maxInputs+1)},
		"a long text":  {Target: "AA", Events: []api.BrowserEvent{{Action: api.BrowserText, Text: strings.Repeat("x", maxText+1)}}},
	} {
		in.Token = c.Token
		if err := b.Input(t.Context(), one, in); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := f.commands(); got != "" {
		t.Errorf("the browser got %s", got)
	}
}
