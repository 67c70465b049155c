package browser

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

const (
	// maxList bounds an answer about tabs, and maxMessage a message: a picture of a large tab is below a MiB.
	maxList    = 1 << 20
	maxMessage = 3 << 20
	// patience bounds each answer of the browser but the next picture: a tab that does not change sends none.
	patience = 15 * time.Second
)

// Config says how browsers are reached.
type Config struct {
	// Dial opens a stream to a port inside a sandbox that the caller may reach.
	Dial func(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Browsers reaches the browsers of sandboxes.
type Browsers struct {
	cfg      Config
	controls controls
}

// New makes the means to reach browsers.
func New(cfg Config) *Browsers {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Browsers{cfg: cfg, controls: controls{now: cfg.Now, of: map[api.SandboxID]control{}}}
}

var (
	targetForm = lazyregexp.New(`^[0-9A-Fa-f-]{1,64}$`)
	pathForm   = lazyregexp.New(`^/devtools/browser/[0-9A-Fa-f-]{1,64}$`)
	schemeForm = lazyregexp.New(`^ws://[^/]*`)
)

// tab is what a browser says of one of its tabs.
type tab struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// client is an HTTP client for the browser of one sandbox.
func (b *Browsers) client(id api.SandboxID) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return b.cfg.Dial(ctx, id, api.BrowserPort) },
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// missing is the error of a sandbox whose browser does not answer as one.
func missing(id api.SandboxID, err error) error {
	if known := (*api.Error)(nil); errors.As(err, &known) && known.Kind != api.KindInternal && known.Kind != api.KindConflict {
		return known
	}
	return api.Errorf(api.KindUnavailable, "no browser answers in sandbox %s at port %d: %w", id, api.BrowserPort, err).
		WithHint("use a sandbox of a template with a browser; docs/templates.md says how to make one")
}

// get asks the browser for JSON.
func (b *Browsers) get(ctx context.Context, id api.SandboxID, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	resp, err := b.client(id).Do(req)
	if err != nil {
		return missing(id, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(out); err != nil {
		return missing(id, err)
	}
	return nil
}

// Path returns the path of the browser's endpoint for clients of the protocol, such as Playwright.
func (b *Browsers) Path(ctx context.Context, id api.SandboxID) (string, error) {
	var version struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := b.get(ctx, id, "/json/version", &version); err != nil {
		return "", err
	}
	path := schemeForm.ReplaceAllString(version.URL, "")
	if !pathForm.MatchString(path) {
		return "", missing(id, errors.New("it names no endpoint"))
	}
	return path, nil
}

// shown returns the tab that is shown: the one that was used last.
func (b *Browsers) shown(ctx context.Context, id api.SandboxID) (tab, error) {
	var tabs []tab
	if err := b.get(ctx, id, "/json/list", &tabs); err != nil {
		return tab{}, err
	}
	for _, t := range tabs {
		if t.Type == "page" && targetForm.MatchString(t.ID) {
			return t, nil
		}
	}
	return tab{}, api.Errorf(api.KindUnavailable, "the browser of sandbox %s has no tab", id)
}

// session is a connection to one tab. It is for one goroutine.
type session struct {
	conn *websocket.Conn
	last int64
}

// message is what a tab sends: the answer to the command with an ID, or an event.
type message struct {
	ID     int64           `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	Result json.RawMessage `json:"result"`
}

// connect connects to a tab. The caller closes the session.
func (b *Browsers) connect(ctx context.Context, id api.SandboxID, target string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://localhost/devtools/page/"+target, &websocket.DialOptions{HTTPClient: b.client(id)})
	if err != nil {
		return nil, missing(id, err)
	}
	conn.SetReadLimit(maxMessage)
	return &session{conn: conn}, nil
}

func (s *session) close() { _ = s.conn.CloseNow() }

// send sends a command and returns its ID.
func (s *session) send(ctx context.Context, method string, params any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.last++
	b, err := json.Marshal(map[string]any{"id": s.last, "method": method, "params": params})
	if err != nil {
		return 0, err
	}
	return s.last, s.conn.Write(ctx, websocket.MessageText, b)
}

func (s *session) read(ctx context.Context) (m message, err error) {
	_, b, err := s.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return m, err
}

// do sends a command and waits for its answer.
func (s *session) do(ctx context.Context, method string, params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, err := s.send(ctx, method, params)
	for err == nil {
		var m message
		if m, err = s.read(ctx); err != nil || m.ID != id {
			continue
		}
		switch {
		case m.Error != nil:
			return api.Errorf(api.KindConflict, "the browser refuses %s: %.200q", method, m.Error.Message)
		case out != nil:
			return json.Unmarshal(m.Result, out)
		}
		return nil
	}
	return api.Errorf(api.KindUnavailable, "the browser does not answer: %w", err)
}
