package clients

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/test/tier"
)

// hostile are answers of a server that is not as a daemon should be: what it sends to a call, and what the error
// of each SDK says.
var hostile = []struct {
	test string // its name, and the call
	want string // the kind and a part of the message
	send func(w http.ResponseWriter)
}{
	{"html/info", "unavailable: unexpected response from the daemon: 502", func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>no daemon</html>")
	}},
	{"otherproblem/info", "internal: unexpected response from the daemon: 400", func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `[{"kind":1}]`)
	}},
	{"otherkind/info", "internal: unexpected response from the daemon: 400", func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"other","detail":"x"}`)
	}},
	{"redirect/info", "internal: unexpected response from the daemon: 307", func(w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}},
	{"nojson/info", "internal: cannot parse the daemon's answer", text(`{"version": `)},
	{"nothing/list", "internal: cannot parse the daemon's answer", text("")},
	{"cut/info", "unavailable: the daemon's answer to /v1/info was interrupted", func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"version":`)
	}},
	{"cutchunks/file", "unavailable: the daemon's answer to /v1/sandboxes/i1/files was interrupted", cut("some of a file")},
	{"cutchunks/stream", "unavailable: the daemon's answer to /v1/sandboxes/i1/files was interrupted", cut("some of a file")},
	{"closed/info", "unavailable: the daemon does not respond", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	{"large/info", "exhausted: the daemon's answer to /v1/info is larger than 64 MiB", endless("        ")},
	{"pages/list", "internal: the daemon's list /v1/sandboxes does not end", func(w http.ResponseWriter) {
		w.Header().Set("X-Next-Cursor", "more")
		_, _ = io.WriteString(w, `[{"id":"i1"}]`)
	}},
	{"closing/events", "unavailable: the daemon closed the event stream /v1/tasks/t1/events", text("event: x\ndata: {")},
	{"cut/events", "unavailable: the daemon's answer to /v1/tasks/t1/events was interrupted", cut("event: x\n")},
	{"large/events", "exhausted: the daemon's answer to /v1/tasks/t1/events has a line of more than 4 MiB", endless("data: x")},
	{"noevent/events", "internal: cannot parse", text("data: {\n\n")},
	{"nonumber/events", "internal: cannot parse an event of /v1/tasks/t1", text("data: {\"type\":\"x\"}\n\n")},
	{"noobject/events", "internal: cannot parse an event of /v1/tasks/t1", text("data: 7\n\n")},
	{"nobase64/output", "internal: the daemon sent output that is not base64", text("event: output\ndata: {\"offset\":0,\"stream\":\"stdout\",\"data\":\"*\"}\n\n")},
	{"cut/code", "unavailable: the daemon's answer to /v1/sandboxes/i1/code was interrupted", cut(`{"type":"started"}` + "\n" + `{"type":`)},
	{"halfline/code", "unavailable: the daemon's answer to /v1/sandboxes/i1/code was interrupted", text(`{"type":"started"}` + "\n" + `{"type":`)},
	{"nolines/code", "internal: a line of the daemon's answer to /v1/sandboxes/i1/code is not an object", text("7\n")},
	{"large/code", "exhausted: the daemon's answer to /v1/sandboxes/i1/code has a line of more than 65 MiB", endless("        ")},
}

func text(s string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, s) }
}

// cut ends the connection in the middle of an answer in chunks.
func cut(s string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, s)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// endless sends as long as the client reads, at most 200 MiB.
func endless(s string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		piece := bytes.Repeat([]byte(s), 64<<10/len(s))
		for range 200 << 20 / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

// TestHostileServer wants the error of each call to say what is wrong, and a key to go to no other address.
func TestHostileServer(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	var elsewhere, tests = atomic.Int64{}, []string(nil)
	for _, c := range hostile {
		tests = append(tests, c.test)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case name == "elsewhere":
			elsewhere.Add(1)
		case name == "silent":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case path == "v1/sandboxes/i1": // what the calls need first
			_, _ = io.WriteString(w, `{"id":"i1"}`)
		default:
			for _, c := range hostile {
				of, call, _ := strings.Cut(c.test, "/")
				if of == name && strings.Contains(path, map[string]string{"list": "sandboxes", "stream": "files", "file": "files"}[call]) &&
					(call == "list" || call == "stream" || call == "file" || strings.Contains(path, call)) {
					c.send(w)
					return
				}
			}
			t.Errorf("a request for %s", r.URL)
		}
	}))
	defer srv.Close()
	for name, run := range map[string]func(*testing.T, string) string{
		"typescript": program("key", append([]string{"node", "hostile.mjs", filepath.Join(typescript, "dist/index.js")}, tests...)...),
		"python":     program("key", append([]string{"python3", "hostile.py"}, tests...)...),
	} {
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(run(t, srv.URL), "\n")
			if len(lines) != len(hostile)+4 {
				t.Fatalf("%d lines: %q", len(lines), lines)
			}
			for i, c := range hostile {
				if want := fmt.Sprintf("%s: %s", c.test, c.want); !strings.HasPrefix(lines[i], want) {
					t.Errorf("%.200q, want %q", lines[i], want)
				} else {
					t.Logf("%.160s", lines[i])
				}
			}
			if got := strings.Join(lines[len(hostile):], "\n"); got != "silent/info: unavailable\nsilent/events: unavailable\ncanceled: canceled\n" {
				t.Error(got)
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests to another address", n)
	}
}
