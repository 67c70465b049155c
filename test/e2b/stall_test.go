package e2b

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/test/connect"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// sandbox is one as a client of the wire knows it.
type sandbox struct {
	s               server
	SandboxID       string
	EnvdAccessToken string
}

// sandbox makes one.
func (s server) sandbox(t *testing.T) sandbox {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+"/v2/sandboxes", strings.NewReader(`{"templateID":"base"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sb := sandbox{s: s}
	if err := json.NewDecoder(resp.Body).Decode(&sb); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, err)
	}
	return sb
}

// start requests a command on a connection of its own, and gives its answer with the
// first frame read.
func (b sandbox) start(t *testing.T, args ...string) (net.Conn, *http.Response) {
	t.Helper()
	body := connect.Frame(t, map[string]any{"process": map[string]any{"cmd": args[0], "args": args[1:]}})
	addr := strings.TrimPrefix(b.s.url, "http://")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", connect.StartHead(addr, b.SandboxID, b.EnvdAccessToken), len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	if first := connect.Read(t, resp.Body); !bytes.Contains(first, []byte(`"start"`)) {
		t.Fatalf("the first frame is %s", first)
	}
	return c, resp
}

// TestStalledClients: clients that have commands talk without end, and do not listen,
// cost the server little memory and nobody else his answers. What they had not read when
// the sandbox ends is cut off, visibly.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	for _, isolation := range tier.First(1, isolations) {
		t.Run(isolation, func(t *testing.T) {
			s := serve(t, isolation)
			sb := s.sandbox(t)
			before := s.memory(t, "VmRSS")
			s.forget(t)
			const stalled = 40
			var conns []net.Conn
			var answers []*http.Response
			for range stalled {
				c, resp := sb.start(t, "yes")
				conns, answers = append(conns, c), append(answers, resp)
			}
			// Beside them a megabyte comes as ever, again and again.
			const size = 1 << 20
			for range 20 {
				_, resp := sb.start(t, "sh", "-c", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size))
				n := 0
				for {
					var f struct {
						Event struct {
							Data *struct{ Stdout []byte }
							End  *struct{ Status string }
						}
					}
					if err := json.Unmarshal(connect.Read(t, resp.Body), &f); err != nil {
						t.Fatal(err)
					}
					if f.Event.Data != nil {
						n += len(f.Event.Data.Stdout)
					}
					if f.Event.End != nil {
						break
					}
				}
				if n != size {
					t.Fatalf("%d bytes came of %d", n, size)
				}
			}
			most := s.memory(t, "VmHWM")
			t.Logf("%d clients stall: the server grew from %d to at most %d MiB", stalled, before>>20, most>>20)
			if most > before+slack {
				t.Errorf("the server had %d MiB, and then %d", before>>20, most>>20)
			}
			req, err := http.NewRequest(http.MethodDelete, s.url+"/sandboxes/"+sb.SandboxID, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-API-KEY", s.key)
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != http.StatusNoContent {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() {
					conns[i].SetDeadline(time.Now().Add(patience.Of(time.Minute)))
					n, err := io.Copy(io.Discard, answers[i].Body)
					if !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(fmt.Sprint(err), "connection reset") {
						t.Errorf("client %d: after %d bytes: %v; want a cut", i, n, err)
					}
				})
			}
			all.Wait()
		})
	}
}
