package story

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/test/tier"
)

// pageServer is a program that somebody looks at while it runs in a sandbox.
const pageServer = `
from http.server import BaseHTTPRequestHandler, HTTPServer
class H(BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("hello from " + self.path).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
s = HTTPServer(("127.0.0.1", 8000), H)
print("listening", flush=True)
s.serve_forever()
`

// TestForward leads a port of this machine to one inside a sandbox, and nowhere once
// that is over.
func TestForward(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	sandbox := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "10m"))
	if r := g.run("sandbox", "exec", sandbox, "--", "sh", "-c", "command -v python3"); r.code != 0 {
		t.Skip("sandboxes here have no python3")
	}
	if r := g.input(strings.NewReader(pageServer), "sandbox", "exec", "-i", sandbox, "--", "sh", "-c",
		"cat >serve.py; setsid python3 serve.py </dev/null >out 2>&1 & while ! test -s out; do sleep 0.05; done; cat out"); r.code != 0 || r.stdout != "listening\n" {
		t.Fatal(r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := g.command(ctx, "sandbox", "forward", sandbox, "0:8000")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("it printed %q, %v", line, err)
	}
	for _, path := range []string{"/a?b=c", "/again"} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "hello from "+path {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		c.Close()
		t.Error("somebody still listens")
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{sandbox, "eighty"}, 2, "is not [LOCAL:]PORT"},
		{[]string{sandbox, "0:0"}, 2, "is not [LOCAL:]PORT"},
		{[]string{sandbox, "0:8000", "--address", "elsewhere"}, 2, "is not an address"},
	} {
		if r := g.run(append([]string{"sandbox", "forward"}, tt.args...)...); r.code != tt.code || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%q: %s", tt.args, r)
		}
	}

	// Nothing listens on the port: the client is sent away, and the command says why, once.
	// It ends with its sandbox.
	closed := g.command(ctx, "sandbox", "forward", sandbox, "0:8001")
	var said strings.Builder
	closed.Stderr = &said
	if stdout, err = closed.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := closed.Start(); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if resp, err := http.Get(strings.TrimSpace(line)); err == nil {
			resp.Body.Close()
			t.Errorf("a closed port answered %s", resp.Status)
		}
	}
	g.must("sandbox", "kill", sandbox)
	if err := closed.Wait(); closed.ProcessState.ExitCode() != 1 {
		t.Errorf("after the sandbox's end: %v\n%s", err, &said)
	}
	for _, want := range []string{"port 8001: nothing listens on the port; start a server in the sandbox", "sandbox " + sandbox + " is ended (killed)"} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("it says %q not once:\n%s", want, &said)
		}
	}
	if r := g.run("sandbox", "forward", sandbox, "0:8000"); r.code == 0 || !strings.Contains(r.stderr, "is ended") {
		t.Errorf("of a dead sandbox: %s", r)
	}
}
