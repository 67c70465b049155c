package dialout_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/dialout"
)

// host serves with a key, and returns how it is dialled.
func host(t *testing.T, handle http.HandlerFunc) birth.Dial {
	t.Helper()
	s := httptest.NewTLSServer(handle)
	t.Cleanup(s.Close)
	return birth.Dial{
		Address: s.Listener.Addr().String(), Pin: hex.EncodeToString(dialout.Pin(s.Certificate().RawSubjectPublicKeyInfo)),
		Name: "guest", Ticket: "ticket", Patience: 1,
	}
}

// A guest sends nothing to a host with another key. The control is the same host with its key.
func TestAnotherKey(t *testing.T) {
	seen := make(chan string, 10)
	d := host(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.Header().Set(dialout.HeaderToken, "token")
		fmt.Fprint(w, "{}")
	})
	g, err := dialout.New(d)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := g.Fetch(t.Context()); err != nil || string(text) != "{}" {
		t.Fatalf("the control: %q, %v", text, err)
	}
	if got := <-seen; got != "Bearer ticket" {
		t.Errorf("sent %q", got)
	}
	d.Pin = strings.Repeat("0", 64)
	if g, err = dialout.New(d); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("fetched from another host: %v", err)
	}
	select {
	case got := <-seen:
		t.Errorf("sent %q to another host", got)
	default:
	}
}

// What a host answers has a maximum, and a refusal ends a guest at once.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   string
	}{
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(dialout.MaxConfig+1))
		}, "a length of"},
		"no length": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			io.WriteString(w, "{}")
		}, "a length of -1"},
		"no token":   {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") }, "no token"},
		"long head":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "connect to the host"},
		"not a host": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "status 418"},
		"refused":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "refused this guest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := dialout.New(host(t, c.handle))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// A guest tells its host which denied addresses it reaches, and those alone. It gives a policy some seconds.
func TestReached(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	got := make(chan []string, 1)
	d := host(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Values(dialout.HeaderReached)
		w.WriteHeader(http.StatusForbidden)
	})
	d.Denied = []string{closed.Addr().String(), open.Addr().String()}
	g, err := dialout.New(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Fetch(t.Context()); err == nil {
		t.Error("fetched after a refusal")
	}
	if list := <-got; len(list) != 1 || list[0] != open.Addr().String() {
		t.Errorf("reached %q", list)
	}
}

func TestMalformed(t *testing.T) {
	good := birth.Dial{Address: "127.0.0.1:1", Pin: strings.Repeat("0", 64), Name: "n", Ticket: "t", Patience: 1}
	if _, err := dialout.New(good); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*birth.Dial){
		"pin": func(d *birth.Dial) { d.Pin = "00" }, "no hex": func(d *birth.Dial) { d.Pin = strings.Repeat("x", 64) }, "name": func(d *birth.Dial) { d.Name = "" },
		"ticket": func(d *birth.Dial) { d.Ticket = "" }, "patience": func(d *birth.Dial) { d.Patience = 0 },
	} {
		d := good
		change(&d)
		if _, err := dialout.New(d); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
