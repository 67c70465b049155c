package webhook_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/internal/server/e2b"
	"hortus.dev/internal/server/webhook"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
)

const secret = "canary-signature-secret"

// rows is the real store; it says what deliveries it has stored.
type rows struct {
	*database.DB
	stored chan api.WebhookDelivery
}

func (r rows) PutDelivery(ctx context.Context, d api.WebhookDelivery, most int) error {
	err := r.DB.PutDelivery(ctx, d, most)
	r.stored <- d
	return err
}

// clock is one on which waiting takes no time.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.waits = c.now.Add(d), append(c.waits, d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over
}

// world is a store, a receiver of HTTPS on this machine, and what delivers to it.
type world struct {
	t     *testing.T
	rows  rows
	srv   *httptest.Server
	clock *clock
	hooks *webhook.Webhooks
	// requests are those that the receiver answered; answer is how it does, nil for 200.
	requests chan sent
	answer   atomic.Pointer[http.HandlerFunc]
}

type sent struct {
	header http.Header
	body   []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db"), Ahead: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{
		t: t, rows: rows{db, make(chan api.WebhookDelivery, 100)}, clock: &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, requests: make(chan sent, 100),
	}
	w.srv = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.requests <- sent{r.Header, b}
		if f := w.answer.Load(); f != nil {
			(*f)(rw, r)
		}
	}))
	t.Cleanup(w.srv.Close)
	return w
}

// toReceiver connects to the receiver, whatever the host.
func (w *world) toReceiver(ctx context.Context, _ string, _ int) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", w.srv.Listener.Addr().String())
}

// open begins to deliver; change may be nil.
func (w *world) open(change func(*webhook.Config)) {
	w.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(w.srv.Certificate())
	cfg := webhook.Config{
		Rows: w.rows, Dial: w.toReceiver, Roots: roots, Encode: e2b.EncodeEvent, Now: w.clock.Now, After: w.clock.After, Timeout: patience.Of(time.Minute),
	}
	if change != nil {
		change(&cfg)
	}
	w.hooks = webhook.New(cfg)
	w.t.Cleanup(w.close)
}

func (w *world) close() {
	if err := w.hooks.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
}

func (w *world) as(account string) context.Context {
	return api.WithPrincipal(w.t.Context(), api.Principal{Account: account, Role: api.RoleUser})
}

// hook creates a webhook of an account.
func (w *world) hook(account string, events ...api.LifecycleType) api.Webhook {
	w.t.Helper()
	h, err := w.hooks.Create(w.as(account), api.Webhook{Name: "hook", URL: "https://example.com/of/" + account, Enabled: true, Events: events}, secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// live makes a sandbox that goes through states.
func (w *world) live(account string, states ...api.SandboxState) api.SandboxID {
	w.t.Helper()
	now := time.Now()
	s := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Account: account, Template: api.HostTemplate, CreatedAt: now, ExpiresAt: now, Labels: map[string]string{"of": account}}
	if err := w.rows.InsertSandbox(w.t.Context(), s); err != nil {
		w.t.Fatal(err)
	}
	for _, state := range states {
		_, err := w.rows.AppendEvent(w.t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(s.ID)}, api.EventSandboxState, now, fmt.Appendf(nil, `{"state":%q,"reason":"killed"}`, state))
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.hooks.Wake()
	return s.ID
}

// next returns the next delivery that was stored.
func (w *world) next() api.WebhookDelivery {
	w.t.Helper()
	select {
	case d := <-w.rows.stored:
		return d
	case <-time.After(patience.Of(time.Minute)):
		w.t.Fatal("no delivery was stored")
		return api.WebhookDelivery{}
	}
}

func (w *world) answers(f http.HandlerFunc) { w.answer.Store(&f) }

func status(n int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(n) }
}

// TestDeliver: the events of the account arrive in their order, in the form and with the signature of the wire.
func TestDeliver(t *testing.T) {
	w := newWorld(t)
	w.open(nil)
	h := w.hook("alice", api.LifecycleCreated, api.LifecyclePaused, api.LifecycleKilled)
	w.live("bob", api.SandboxRunning)
	id := w.live("alice", api.SandboxRunning, api.SandboxPaused, api.SandboxRunning, api.SandboxEnded)
	var types, ids []string
	for range 3 {
		if d := w.next(); d.Error != "" || d.Status != 200 || !d.Last || d.Sandbox != id || d.Attempt != 1 {
			t.Errorf("%+v", d)
		}
		r := <-w.requests
		var e map[string]any
		if err := json.Unmarshal(r.body, &e); err != nil {
			t.Fatal(err)
		}
		types, ids = append(types, fmt.Sprint(e["type"], " ", e["event_label"])), append(ids, r.header.Get("e2b-delivery-id"), fmt.Sprint(e["id"]))
		sum := sha256.Sum256([]byte(secret + string(r.body)))
		if got := r.header.Get("e2b-signature"); got != strings.TrimRight(base64.StdEncoding.EncodeToString(sum[:]), "=") || strings.Contains(got, "=") {
			t.Errorf("signature %q", got)
		}
		if r.header.Get("e2b-webhook-id") != h.ID || r.header.Get("e2b-signature-version") != "v1" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v", r.header)
		}
		if e["version"] != "v2" || e["sandbox_id"] != string(id) || e["sandbox_team_id"] != "alice" || e["sandbox_template_id"] != "base" || !strings.Contains(string(r.body), `"sandbox_metadata":{"of":"alice"}`) {
			t.Errorf("%s", r.body)
		}
	}
	if want := []string{"sandbox.lifecycle.created create", "sandbox.lifecycle.paused pause", "sandbox.lifecycle.killed kill"}; !slices.Equal(types, want) {
		t.Errorf("%v; want %v", types, want)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 6 {
		t.Errorf("ids repeat: %v", ids)
	}
	// Nothing else was sent: what is disabled gets nothing, and continues with what happens from then on.
	if _, err := w.hooks.Update(w.as("alice"), h.ID, func(h *api.Webhook) { h.Enabled = false }, ""); err != nil {
		t.Fatal(err)
	}
	w.live("alice", api.SandboxRunning)
	if _, err := w.hooks.Update(w.as("alice"), h.ID, func(h *api.Webhook) { h.Enabled = true }, ""); err != nil {
		t.Fatal(err)
	}
	last := w.live("alice", api.SandboxRunning)
	if d := w.next(); d.Sandbox != last || len(w.requests) != 1 {
		t.Errorf("%+v, %d requests; want sandbox %s", d, len(w.requests), last)
	}
}

// TestRetry: an event that is refused is sent again, later each time, and given up in the end. Then the next one is sent.
func TestRetry(t *testing.T) {
	w := newWorld(t)
	w.answers(status(http.StatusInternalServerError))
	w.open(nil)
	h := w.hook("alice", api.LifecycleTypes()...)
	first := w.live("alice", api.SandboxRunning)
	var bodies []string
	for i := range 5 {
		d := w.next()
		r := <-w.requests
		bodies = append(bodies, string(r.body))
		if i == 4 {
			w.answers(status(http.StatusNoContent))
		}
		if d.Sandbox != first || d.Attempt != i+1 || d.Status != 500 || d.Error == "" || d.Last != (i == 4) {
			t.Errorf("attempt %d: %+v", i+1, d)
		}
	}
	if bodies = slices.Compact(bodies); len(bodies) != 1 {
		t.Errorf("the attempts differ: %q", bodies)
	}
	w.clock.mu.Lock()
	if want := []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}; !slices.Equal(w.clock.waits, want) {
		t.Errorf("waited %v, want %v", w.clock.waits, want)
	}
	w.clock.mu.Unlock()
	second := w.live("alice", api.SandboxRunning)
	if d := w.next(); d.Sandbox != second || d.Attempt != 1 || d.Error != "" || d.Status != 204 {
		t.Errorf("%+v", d)
	}
	all, err := w.hooks.Deliveries(w.as("alice"), h.ID)
	if err != nil || len(all) != 6 || all[0].Sandbox != second || all[5].Attempt != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestRestart: an attempt that is cut by the end of a daemon is made again by the next one, which loses nothing that
// happened in between and repeats nothing that was delivered.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.open(nil)
	w.hook("alice", api.LifecycleTypes()...)
	delivered := w.live("alice", api.SandboxRunning)
	if d := w.next(); d.Sandbox != delivered || d.Error != "" {
		t.Fatalf("%+v", d)
	}
	<-w.requests
	w.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cut := w.live("alice", api.SandboxRunning)
	before := <-w.requests
	w.close()
	w.answers(status(http.StatusOK))
	between := w.live("alice", api.SandboxRunning)
	w.open(nil)
	for i, want := range []api.SandboxID{cut, between} {
		if d := w.next(); d.Sandbox != want || d.Error != "" || d.Attempt != 1 {
			t.Errorf("%d: %+v, want sandbox %s", i, d, want)
		}
	}
	if r := <-w.requests; string(r.body) != string(before.body) || r.header.Get("e2b-delivery-id") == before.header.Get("e2b-delivery-id") {
		t.Errorf("%s, and before %s", r.body, before.body)
	}
}

// TestAttacks: what a receiver's address or answer does is one failed attempt. Each has a control, which is delivered.
func TestAttacks(t *testing.T) {
	var inside atomic.Int64 // requests at a server of this machine
	private := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	defer private.Close()
	resolved := func(addr string) dial.Resolver { return always{netip.MustParseAddr(addr)} }
	// guarded is the dialer of the daemon, and opened the same with private addresses allowed.
	guarded := func(w *world, addr string, allowed bool) func(context.Context, string, int) (net.Conn, error) {
		d := dial.New(dial.Config{Resolver: resolved(addr)})
		port := w.srv.Listener.Addr().(*net.TCPAddr).Port
		return func(ctx context.Context, host string, _ int) (net.Conn, error) {
			c, _, err := d.Dial(ctx, host, port, allowed)
			return c, err
		}
	}
	for name, c := range map[string]struct {
		open          func(w *world) func(*webhook.Config)
		attack, calm  http.HandlerFunc
		says          string
		arrives       bool // the request itself
		delivered     bool // also under attack
		openedControl func(w *world) func(*webhook.Config)
	}{
		"private address": {
			open: func(w *world) func(*webhook.Config) {
				return func(c *webhook.Config) { c.Dial = guarded(w, "127.0.0.1", false) }
			},
			openedControl: func(w *world) func(*webhook.Config) {
				return func(c *webhook.Config) { c.Dial = guarded(w, "127.0.0.1", true) }
			},
			says: "address",
		},
		"redirect to a private address": {
			attack: func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, private.URL, http.StatusTemporaryRedirect)
			},
			says: "redirects are not followed", arrives: true,
		},
		"endless answer": {
			attack: func(rw http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := rw.Write(make([]byte, 1<<16)); err != nil {
						return
					}
				}
			},
			arrives: true, delivered: true,
		},
		"huge head": {
			attack: func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("X-Fill", strings.Repeat("x", 1<<20))
			},
			says: "header", arrives: true,
		},
		"no answer": {
			open: func(*world) func(*webhook.Config) {
				return func(c *webhook.Config) { c.Timeout = 50 * time.Millisecond }
			},
			attack: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			says:   "no answer within", arrives: true,
			openedControl: func(*world) func(*webhook.Config) { return nil },
		},
		"certificate of another authority": {
			open:          func(*world) func(*webhook.Config) { return func(c *webhook.Config) { c.Roots = x509.NewCertPool() } },
			openedControl: func(*world) func(*webhook.Config) { return nil },
			says:          "certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var change func(*webhook.Config)
			if c.open != nil {
				change = c.open(w)
			}
			if c.attack != nil {
				w.answers(c.attack)
			}
			w.open(change)
			w.hook("alice", api.LifecycleCreated)
			w.live("alice", api.SandboxRunning)
			d := w.next()
			if (d.Error == "") != c.delivered || !strings.Contains(d.Error, c.says) {
				t.Errorf("%+v; want %q", d, c.says)
			}
			if strings.Contains(d.Error, secret) || len(d.Error) > 300 {
				t.Errorf("%q", d.Error)
			}
			w.close()
			if c.arrives == (len(w.requests) == 0) {
				t.Errorf("%d requests arrived", len(w.requests))
			}
			w.answer.Store(nil)
			if change = nil; c.openedControl != nil {
				change = c.openedControl(w)
			}
			for len(w.rows.stored) > 0 {
				<-w.rows.stored
			}
			w.open(change)
			control := w.live("alice", api.SandboxRunning)
			for d = w.next(); d.Sandbox != control; d = w.next() {
			}
			if d.Error != "" || d.Status != 200 {
				t.Errorf("control: %+v", d)
			}
		})
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("%d requests at a private address", n)
	}
}

type always []netip.Addr

func (a always) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return a, nil }

// TestOtherAccount: another account's webhooks do not exist, and neither do its events; the administrator's own are apart.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t)
	w.open(nil)
	h := w.hook("alice", api.LifecycleCreated)
	id := w.live("alice", api.SandboxRunning)
	w.next()
	for name, ctx := range map[string]context.Context{"bob": w.as("bob"), "operator": api.WithPrincipal(t.Context(), api.Operator()), "alice": w.as("alice")} {
		want := api.KindNotFound
		if name == "alice" { // the control, and the last that changes it
			want = ""
		}
		if name != "alice" {
			if all, err := w.hooks.List(ctx); err != nil || len(all) != 0 {
				t.Errorf("%s: %v, %v", name, all, err)
			}
		}
		_, err := w.hooks.Get(ctx, h.ID)
		_, uerr := w.hooks.Update(ctx, h.ID, func(h *api.Webhook) { h.Name = "of " + name }, "another secret")
		_, derr := w.hooks.Deliveries(ctx, h.ID)
		for _, err := range []error{err, uerr, derr} {
			if api.KindOf(err) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, f := range []api.LifecycleFilter{{Limit: 9}, {Limit: 9, Sandbox: id}, {Limit: 9, Account: "alice"}} {
			if all, err := w.hooks.Events(ctx, f); err != nil || (len(all) == 1) != (name == "alice") {
				t.Errorf("%s: %d events, %v", name, len(all), err)
			}
		}
	}
	_, err := w.hooks.Remove(w.as("bob"), h.ID)
	if have, gerr := w.hooks.Get(w.as("alice"), h.ID); api.KindOf(err) != api.KindNotFound || gerr != nil || have.Name != "of alice" {
		t.Errorf("%v, %+v, %v", err, have, gerr)
	}
	if _, err := w.hooks.Remove(w.as("alice"), h.ID); err != nil {
		t.Error(err)
	}
}

// TestBounds: what a webhook cannot have is refused, and so are too many.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	w.open(nil)
	good := api.Webhook{Name: "n", URL: "https://example.com:8443/a?b=c", Enabled: true, Events: []api.LifecycleType{api.LifecycleKilled, api.LifecycleKilled}}
	for name, change := range map[string]func(*api.Webhook) string{
		"no name":       func(h *api.Webhook) string { h.Name = ""; return secret },
		"long name":     func(h *api.Webhook) string { h.Name = strings.Repeat("n", 201); return secret },
		"no secret":     func(h *api.Webhook) string { return "" },
		"long secret":   func(h *api.Webhook) string { return strings.Repeat("s", 513) },
		"no types":      func(h *api.Webhook) string { h.Events = nil; return secret },
		"unknown type":  func(h *api.Webhook) string { h.Events = []api.LifecycleType{"born"}; return secret },
		"http":          func(h *api.Webhook) string { h.URL = "http://example.com/"; return secret },
		"no host":       func(h *api.Webhook) string { h.URL = "https:///a"; return secret },
		"opaque":        func(h *api.Webhook) string { h.URL = "https:example.com"; return secret },
		"user":          func(h *api.Webhook) string { h.URL = "https://a:b@example.com/"; return secret },
		"fragment":      func(h *api.Webhook) string { h.URL = "https://example.com/#a"; return secret },
		"long address":  func(h *api.Webhook) string { h.URL += strings.Repeat("x", 2000); return secret },
		"other schemes": func(h *api.Webhook) string { h.URL = "file:///etc/passwd"; return secret },
	} {
		h := good
		key := change(&h)
		if _, err := w.hooks.Create(w.as("alice"), h, key); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range 20 {
		if h, err := w.hooks.Create(w.as("alice"), good, secret); err != nil || len(h.Events) != 1 {
			t.Fatalf("%d: %+v, %v", i, h, err)
		}
	}
	if _, err := w.hooks.Create(w.as("alice"), good, secret); api.KindOf(err) != api.KindExhausted {
		t.Errorf("one too many: %v", err)
	}
	if _, err := w.hooks.Create(w.as("bob"), good, secret); err != nil {
		t.Errorf("another account: %v", err)
	}
}
