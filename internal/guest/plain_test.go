//go:build linux

package guest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// TestPlainClientsStartAtHome: relative paths start in the home for E2B's clients, and in
// the workspace for ours.
func TestPlainClientsStartAtHome(t *testing.T) {
	home := t.TempDir()
	g := startGuest(t, guestOptions{cfg: func(c *birth.Config) { c.Identities[0].Home = home }})
	for _, tt := range []struct{ version, dir string }{{"", home}, {envd.Version, g.cfg.Workspace}} {
		c, err := g.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /files?path=rel HTTP/1.1\r\nHost: x\r\nHortus-Version: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx", tt.version)
		b, _ := io.ReadAll(c)
		if want := `"path":"` + tt.dir + `/rel"`; !strings.Contains(string(b), want) {
			t.Errorf("version %q: %s; want %s", tt.version, b, want)
		}
		if _, err := os.Stat(filepath.Join(tt.dir, "rel")); err != nil {
			t.Error(err)
		}
	}
	for _, w := range wireCodecs {
		s, err := stock[envd.StartRequest, envd.ProcessResponse](g, w, envd.ProcStart).CallServerStream(t.Context(), newRequest(shell("pwd")))
		if err != nil {
			t.Fatal(err)
		}
		var out string
		for s.Receive() {
			if ev := s.Msg().Event; ev.Data != nil {
				out += string(ev.Data.Stdout)
			}
		}
		if s.Err() != nil || out != home+"\n" {
			t.Errorf("%s: a command began in %q, %v", w.name, out, s.Err())
		}
	}
}

// TestEnvironment: a command has PATH, HOME, USER and LOGNAME, the sandbox's variables and
// those of the request, and no others, for all clients.
func TestEnvironment(t *testing.T) {
	t.Setenv("OF_THE_HOST", "no")
	g := startGuest(t, guestOptions{cfg: func(c *birth.Config) { c.Env["BOTH"] = "config" }})
	off := false
	req := &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "env", Envs: map[string]string{"FROM_REQUEST": "yes", "BOTH": "request"}}, Stdin: &off}
	want := "BOTH=request\nFROM_CONFIG=yes\nFROM_REQUEST=yes\nHOME=/tmp\nLOGNAME=user\nPATH=" + g.cfg.Path + "\nUSER=user\n"
	check := func(who, out string) {
		t.Helper()
		lines := strings.SplitAfter(out, "\n")
		slices.Sort(lines)
		if got := strings.Join(lines, ""); got != want {
			t.Errorf("%s gets\n%swant\n%s", who, got, want)
		}
	}
	if r := g.run(t, req, envd.StartOptions{}); r.err != nil {
		t.Error(r.err)
	} else {
		check("our client", r.stdout.String())
	}
	for _, w := range wireCodecs {
		s, err := stock[envd.StartRequest, envd.ProcessResponse](g, w, envd.ProcStart).CallServerStream(t.Context(), newRequest(req))
		if err != nil {
			t.Fatal(err)
		}
		var out string
		for s.Receive() {
			if ev := s.Msg().Event; ev.Data != nil {
				out += string(ev.Data.Stdout)
			}
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
		check("a stock client, "+w.name, out)
	}
}

// TestRefusedUploadIsAnswered: a client that is still sending when it is refused receives
// the answer before its connection ends.
func TestRefusedUploadIsAnswered(t *testing.T) {
	g := startGuest(t, guestOptions{})
	for _, target := range []string{"/files?path=/proc/version/x", "/files?path=%00", "/files", "/nowhere"} {
		for _, length := range []string{"Content-Length: 8388608\r\n", "Transfer-Encoding: chunked\r\n"} {
			c, err := g.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n%s\r\n", target, length)
			chunk := strings.Repeat("x", 64<<10)
			for range 128 {
				if strings.HasPrefix(length, "Transfer") {
					_, err = fmt.Fprintf(c, "%x\r\n%s\r\n", len(chunk), chunk)
				} else {
					_, err = io.WriteString(c, chunk)
				}
				if err != nil {
					t.Errorf("%s: it could not be sent whole: %v", target, err)
					break
				}
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode < 400 {
				t.Errorf("%s: %v, %v", target, resp, err)
			}
			c.Close()
		}
	}
}

// TestFollowIsBounded: a stream with a timeout ends at the timeout, and the command
// continues.
func TestFollowIsBounded(t *testing.T) {
	g := startGuest(t, guestOptions{})
	w := wireCodecs[1]
	started, err := stock[envd.StartRequest, envd.ProcessResponse](g, w, envd.ProcStart).CallServerStream(t.Context(), newRequest(shell("while :; do echo x; done")))
	if err != nil || !started.Receive() {
		t.Fatal(err)
	}
	pid := started.Msg().Event.Start.PID
	started.Close()
	quiet := must[envd.ProcessResponse](t)(firstOf(t, g, w, shell("sleep 1000")))
	for _, pid := range []uint32{pid, quiet.Event.Start.PID} { // one that floods, one that is silent
		req := newRequest(&envd.ConnectRequest{Process: &envd.Selector{PID: &pid}})
		req.Header().Set("Connect-Timeout-Ms", "50")
		s, err := stock[envd.ConnectRequest, envd.ProcessResponse](g, w, envd.ProcConnect).CallServerStream(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for s.Receive() {
		}
		if !isDeadline(s.Err()) {
			t.Errorf("process %d: %v", pid, s.Err())
		}
		if _, err := call[envd.SendSignalRequest, envd.Empty](t, g, w, envd.ProcSendSignal, &envd.SendSignalRequest{Process: &envd.Selector{PID: &pid}, Signal: 9}); err != nil {
			t.Errorf("it does not run any more: %v", err)
		}
	}
	req := newRequest(&envd.WatchRequest{Path: g.cfg.Workspace})
	req.Header().Set("Connect-Timeout-Ms", "50")
	req.Header().Set("Keepalive-Ping-Interval", "1")
	s, err := stock[envd.WatchRequest, envd.WatchDirResponse](g, w, envd.FSWatchDir).CallServerStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for s.Receive() {
	}
	if !isDeadline(s.Err()) {
		t.Errorf("watch: %v", s.Err())
	}
}

func newRequest[T any](m *T) *connect.Request[T] { return connect.NewRequest(m) }

func isDeadline(err error) bool { return connect.CodeOf(err) == connect.CodeDeadlineExceeded }

// firstOf starts a command and returns the first message of its stream.
func firstOf(t *testing.T, g *guestProc, w wireCodec, in *envd.StartRequest) (*envd.ProcessResponse, error) {
	t.Helper()
	s, err := stock[envd.StartRequest, envd.ProcessResponse](g, w, envd.ProcStart).CallServerStream(t.Context(), newRequest(in))
	if err != nil {
		return nil, err
	}
	if !s.Receive() {
		return nil, s.Err()
	}
	m := *s.Msg()
	return &m, s.Close()
}
