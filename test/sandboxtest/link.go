package sandboxtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/runner"
	"hortus.dev/test/patience"
)

func linkCases() []Case {
	return []Case{
		{Name: "link/guest-opens-a-stream", Claimed: true, PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			accepted := b.accept(t)
			if status := b.reach(t, "from the guest"); status != http.StatusNoContent {
				t.Fatalf("the guest answered %d", status)
			}
			wantStream(t, accepted, "from the guest")
			b.sh(t, "echo alive").want(t, 0, "alive\n")
		}},
		{Name: "link/accept-ends-with-the-sandbox", Plain: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			accepted := b.accept(t)
			s.kill(t, b)
			if r := <-accepted; api.KindOf(r.err) != api.KindUnavailable {
				t.Errorf("after the kill: %v", r.err)
			}
		}},
		{Name: "link/quiesce", PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			link := b.Machine.Link()
			open, err := link.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			resume, err := link.Quiesce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if c, err := link.Open(late); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a stream was opened while the link was quiesced: %v, %v", c, err)
			}
			if _, err := link.Quiesce(late); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("quiesced twice: %v", err)
			}
			io.WriteString(open, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if answer, err := io.ReadAll(open); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 204") {
				t.Errorf("an open stream, while the link is quiesced: %q, %v", answer, err)
			}
			resume()
			resume()
			b.sh(t, "echo alive").want(t, 0, "alive\n")
		}},
		{Name: "link/output-collected-within-bounds", Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			no := false
			ps, err := b.Guest.Start(t.Context(), &envd.StartRequest{Stdin: &no,
				Process: &envd.ProcessConfig{Cmd: "sh", Args: []string{"-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo why >&2; exit 3"}},
			}, envd.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer ps.Close()
			out, errOut := runner.Text{Max: 1000}, runner.Text{Max: 1000}
			if err := runner.Collect(ps, &out, &errOut); err != nil {
				t.Fatal(err)
			}
			if out.String() != strings.Repeat("x", 1000) || out.Total() != 3_000_000 || !out.Truncated() || errOut.String() != "why\n" || errOut.Truncated() {
				t.Errorf("%d of %d bytes kept, error output %q", len(out.Bytes()), out.Total(), errOut.String())
			}
		}},
		{Name: "link/accept-over-a-save", PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			accepted := b.accept(t)
			resume, err := b.Machine.Link().Quiesce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.save(t, b, sandbox.SaveOptions{})
			resume()
			if status := b.reach(t, "after the save"); status != http.StatusNoContent {
				t.Fatalf("the guest answered %d", status)
			}
			wantStream(t, accepted, "after the save")
		}},
	}
}

// accepted is what an Accept returned.
type accepted struct {
	conn net.Conn
	err  error
}

// accept waits for one stream of the guest.
func (b *Sandbox) accept(t *testing.T) <-chan accepted {
	t.Helper()
	out := make(chan accepted, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	t.Cleanup(cancel)
	go func() {
		c, err := b.Machine.Link().Accept(ctx)
		out <- accepted{c, err}
	}()
	return out
}

// wantStream checks what came over an accepted stream.
func wantStream(t *testing.T, from <-chan accepted, want string) {
	t.Helper()
	r := <-from
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.conn.Close()
	r.conn.SetDeadline(time.Now().Add(patience.Of(60 * time.Second)))
	if got, err := io.ReadAll(r.conn); err != nil || string(got) != want {
		t.Errorf("the stream has %q, %v; want %q", got, err, want)
	}
}

// reach asks the guest to send a text to its host, and returns the status of its answer.
func (b *Sandbox) reach(t *testing.T, text string) int {
	t.Helper()
	client := &http.Client{Timeout: patience.Of(60 * time.Second), Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return b.Machine.Link().Open(ctx) },
	}}
	resp, err := client.Post("http://guest"+envd.PathReach, "text/plain", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
