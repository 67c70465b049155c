package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/test/tier"
)

// waited is what the programs print.
const waited = `waits for disk: it is full
waits for memory: it is full
created i1
waits for disk: it is full
waits for memory: it is full
forked i2
waits for disk: it is full
waits for memory: it is full
resumed running
not told i1
at once i1
waits for disk: it is full
waits for memory: it is full
in-vain: exhausted 429 5000
waits for disk: it is full
waits for memory: it is full
cut: unavailable 0 0
events [1, 2]
away: unavailable 502
gone: unavailable 410
`

// TestWaiting: the SDKs tell what a request waits for, if the caller wants to know, and open event streams again while there is no daemon
// behind a proxy.
func TestWaiting(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	source, err := os.ReadFile("waiting_async.py")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("asyncio.run(main())", "main()", "import asyncio\n", "", "async def", "def", "async for", "for", "await ", "", "AsyncHortus", "Hortus").Replace(string(source))
	file := filepath.Join(t.TempDir(), "waiting.py")
	if err := os.WriteFile(file, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"typescript":   {"node", "waiting.mjs", filepath.Join(typescript, "dist/index.js")},
		"python":       {"python3", file},
		"python async": {"python3", "waiting_async.py"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var streams atomic.Int64
			srv := httptest.NewServer(full(&streams))
			defer srv.Close()
			if got := program("key", args...)(t, srv.URL); got != waited {
				t.Errorf("%s\nwant\n%s", got, waited)
			}
			if n := streams.Load(); n != 5 {
				t.Errorf("the event stream was opened %d times", n)
			}
		})
	}
}

// full answers as a daemon whose host is full, and as a proxy that has lost its daemon.
func full(streams *atomic.Int64) http.HandlerFunc {
	answers := map[string]string{
		"/v1/sandboxes":           `{"id":"i1"}`,
		"/v1/sandboxes/i1/forks":  `{"children":[{"sandbox":{"id":"i2"}}]}`,
		"/v1/sandboxes/i1/resume": `{"id":"i1","state":"running"}`,
	}
	away := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>no daemon</html>")
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test of requests is elsewhere
		is := func(template string) bool { return strings.Contains(string(body), template) }
		switch answer := answers[r.URL.Path]; {
		case answer != "" && strings.Contains(r.Header.Get("Accept"), "application/x-ndjson") && !is("at-once"):
			w.Header().Set("Content-Type", "application/x-ndjson")
			for _, cause := range []string{"disk", "memory"} {
				fmt.Fprintf(w, `{"type":"waiting","waiting":{"cause":%q,"why":"it is full"}}`+"\n", cause)
				_ = http.NewResponseController(w).Flush()
			}
			switch {
			case is("in-vain"):
				_, _ = io.WriteString(w, `{"type":"error","error":{"kind":"exhausted","detail":"no capacity","status":429,"retryAfterMs":5000}}`+"\n")
			case !is("cut"):
				fmt.Fprintf(w, `{"type":"done","answer":%s}`+"\n", answer)
			}
		case answer != "":
			_, _ = io.WriteString(w, answer)
		case r.URL.Path == "/v1/tasks/t1/events":
			switch n := streams.Add(1); n {
			case 1:
				_, _ = io.WriteString(w, `data: {"seq":1,"type":"x"}`+"\n\n")
			case 5:
				if after := r.URL.Query().Get("after"); after != "1" {
					away(w)
				}
				_, _ = io.WriteString(w, `data: {"seq":2,"type":"task.finished"}`+"\n\n")
			case 3:
				panic(http.ErrAbortHandler)
			default:
				away(w)
			}
		case r.URL.Path == "/v1/tasks/t3/events":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"kind":"unavailable","detail":"it has ended","status":410}`)
		default:
			away(w)
		}
	}
}
