package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/tunnel"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// liar stands before an honest service, and answers some requests itself.
type liar struct {
	honest http.Handler
	lie    atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool] // reports whether it answered
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if lie := l.lie.Load(); lie != nil && (*lie)(w, r) {
		return
	}
	l.honest.ServeHTTP(w, r)
}

// lies: a service that lies is refused with an error that says what is wrong, in a time and with memory that have a
// maximum. It gets no API key to another host, and ends no other sandbox. The control is the same start without a lie. Each run
// has the first lies, one about the sandbox and two about answers; the soak tier has all.
func lies(t *testing.T, w *world.World, key string) {
	at, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{honest: httputil.NewSingleHostReverseProxy(at)}
	front := httptest.NewServer(l)
	defer front.Close()
	var leaked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	defer elsewhere.Close()
	b := newBench(t)
	backend := b.backend(t, atHortus(t, front.URL, key), false)

	spec := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits()}
	victim, err := backend.Start(t.Context(), spec)
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	record, err := os.ReadFile(filepath.Join(b.run, string(spec.ID), "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(record), key) {
		t.Error("the record has the API key")
	}
	var of struct{ Box struct{ ID string } }
	if err := json.Unmarshal(record, &of); err != nil || of.Box.ID == "" {
		t.Fatalf("record %s: %v", record, err)
	}
	created := func(id string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || r.URL.Path != "/v2/sandboxes" {
				return false
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"sandboxID": %q}`, id)
			return true
		}
	}
	frame := func(text string) []byte {
		return append([]byte{0, 0, 0, byte(len(text) >> 8), byte(len(text))}, text...)
	}
	for _, c := range tier.First(3, []struct {
		name, want string
		kind       api.Kind
		lie        func(w http.ResponseWriter, r *http.Request) bool
	}{
		{"redirect", "redirect", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}},
		{"endless answer", "more than", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"sandboxID": "`)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("A", 1<<16)); err != nil {
					break
				}
			}
			return true
		}},
		{"another sandbox", string(spec.ID), api.KindUnavailable, created(of.Box.ID)},
		{"endless output", "more than", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != envd.ProcStart {
				return false
			}
			for r.Context().Err() == nil {
				if _, err := w.Write(frame(`{"event":{"data":{"stderr":"` + strings.Repeat("AAAA", 1000) + `"}}}`)); err != nil {
					break
				}
			}
			return true
		}},
		{"exit code without a guest", "does not respond", "", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != envd.ProcStart {
				return false
			}
			w.Write(frame(`{"event":{"end":{"exitCode":0,"exited":true}}}`))
			return true
		}},
		{"failed command", "exit code 7", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != envd.ProcStart {
				return false
			}
			w.Write(frame(`{"event":{"end":{"exitCode":7,"exited":true}}}`))
			return true
		}},
		{"path as an ID", "malformed ID", api.KindUnavailable, created("../../../v1/keys")},
		{"another program at the port", "another program", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("E2b-Sandbox-Port") != strconv.Itoa(tunnel.Port) {
				return false
			}
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return false
			}
			defer c.Close()
			fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n%s: %s\r\n\r\n",
				tunnel.Accept(r.Header.Get("Sec-WebSocket-Key")), tunnel.HeaderProof, r.Header.Get(tunnel.HeaderProof))
			return true
		}},
		{"another sandbox's port", "status 403", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("E2b-Sandbox-Port") == strconv.Itoa(tunnel.Port) {
				r.Header.Set("E2b-Sandbox-Id", of.Box.ID)
				r.Header.Set("E2b-Traffic-Access-Token", traffic(record))
			}
			return false
		}},
		{"API key in an answer", "[API key]", api.KindUnavailable, func(w http.ResponseWriter, r *http.Request) bool {
			http.Error(w, "who has "+r.Header.Get("X-Api-Key")+"?", http.StatusTeapot)
			return true
		}},
	}) {
		l.lie.Store(&c.lie)
		liedTo := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits()}
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(5*time.Second))
		m, err := backend.Start(ctx, liedTo)
		cancel()
		l.lie.Store(nil)
		if err == nil {
			t.Errorf("%s: it started", c.name)
			m.Kill(context.Background())
			continue
		}
		if c.kind != "" && (api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v (%s); want %s with %q", c.name, err, api.KindOf(err), c.kind, c.want)
		}
		if strings.Contains(err.Error()+api.HintOf(err), key) {
			t.Errorf("%s: the error has the API key", c.name)
		}
		// What the lie kept from the end is found by the next daemon.
		if _, err := backend.Reclaim(t.Context(), liedTo.ID); err != nil {
			t.Errorf("%s: reclaim: %v", c.name, err)
		}
		if left := boxes(t, atHortus(t, w.URL, key), b, liedTo.ID); len(left) > 0 {
			t.Errorf("%s: left %q", c.name, left)
		}
	}
	if leaked.Load() > 0 {
		t.Error("another host got a request")
	}

	// A list that has what is not ours.
	all := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/v2/sandboxes" {
			return false
		}
		fmt.Fprintf(w, `[{"sandboxID": %q, "metadata": {"hortus-owner": "another", "hortus-sandbox": %q}}]`, of.Box.ID, api.NewSandboxID())
		return true
	}
	l.lie.Store(&all)
	if ids, err := backend.Orphans(t.Context()); err != nil || len(ids) != 1 || ids[0] != spec.ID {
		t.Errorf("orphans %q, %v; want the recorded one only", ids, err)
	}
	// An end that is none.
	kept := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	l.lie.Store(&kept)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	proof, err := victim.Kill(ctx)
	cancel()
	if err == nil || proof.Left == 0 {
		t.Errorf("an end that is none: %+v, %v", proof, err)
	}
	l.lie.Store(nil)
	if proof, err := victim.Kill(t.Context()); err != nil || proof.Left != 0 {
		t.Errorf("the victim of all lies: %+v, %v", proof, err)
	}
}

// traffic is the token for ports in a record.
func traffic(record []byte) string {
	var r struct {
		Box struct{ Access map[string]string }
	}
	_ = json.Unmarshal(record, &r)
	return r.Box.Access["traffic"]
}
