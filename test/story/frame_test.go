package story

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/connect"
	"hortus.dev/test/tier"
)

// TestKilledAtEveryByteOfAFrame kills a server at every byte boundary of two frames at
// once: of the one that asks for a command, and of the one that carries a command's
// output. What was not asked for whole never runs; what ran is known whole, whatever of
// it a client has.
func TestKilledAtEveryByteOfAFrame(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.shareKernel()
	key := strings.TrimSpace(g.must("key", "create", "--account", "anybody", "--quiet"))
	w := &wire{t: t, g: g}
	defer w.end()
	w.serve()
	w.create(key)

	const output = "0123456789"
	asked := connect.Frame(t, map[string]any{"process": map[string]any{"cmd": "touch", "args": []string{"/tmp/asked"}}})
	told := connect.Frame(t, map[string]any{"event": map[string]any{"data": map[string]any{"stdout": base64.StdEncoding.EncodeToString([]byte(output))}}})
	last := max(len(asked), len(told))
	// T1 has one byte of the length, one within, and the last one but one.
	few := []int{1, 5, last - 1}
	for k := range last + 1 {
		if !tier.Soaking() && !slices.Contains(few, k) {
			continue
		}
		w.at = k
		// One that has its frame cut while it asks.
		in, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(in, "%sContent-Length: %d\r\n\r\n", connect.StartHead(w.addr, string(w.sandbox), w.token), len(asked))
		if _, err := in.Write(asked[:min(k, len(asked)-1)]); err != nil {
			t.Fatal(err)
		}
		// One that has its frame cut while it hears.
		name := fmt.Sprintf("hears-%d", k)
		heard := connect.Frame(t, map[string]any{"process": map[string]any{"cmd": "sh", "args": []string{"-c", "printf " + output + "; exit 3", name}}})
		out, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "%sContent-Length: %d\r\n\r\n%s", connect.StartHead(w.addr, string(w.sandbox), w.token), len(heard), heard)
		resp, err := http.ReadResponse(bufio.NewReader(out), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		if first := connect.Read(t, resp.Body); !bytes.Contains(first, []byte(`"start"`)) {
			t.Fatalf("the first frame is %s", first)
		}
		part := make([]byte, min(k, len(told)))
		if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != string(told[:len(part)]) {
			t.Fatalf("%q, %v; want the beginning of %q", part, err, told)
		}
		w.kill()
		in.Close()
		out.Close()
		w.serve()
		w.check(name, output)
	}
}

// wire is a server, and a sandbox that outlives it, as a client of E2B's wire sees them.
type wire struct {
	t    *testing.T
	g    *garden
	cmd  *exec.Cmd
	addr string
	at   int

	sandbox api.SandboxID
	token   string
}

// serve starts the server and waits until it serves.
func (w *wire) serve() {
	w.t.Helper()
	w.cmd = w.g.command(context.Background(), "serve", "--listen", "127.0.0.1:0")
	var said buffer
	w.cmd.Stdout, w.cmd.Stderr = &said, &said
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	until(w.t, "the server serves", func() string {
		c := w.g.client()
		defer c.Close()
		info, err := c.Info(context.Background())
		if err != nil {
			return err.Error() + "\n" + said.String()
		}
		if info.PID != w.cmd.Process.Pid || info.URL == "" {
			return "another daemon answers"
		}
		u, err := url.Parse(info.URL)
		if err != nil {
			w.t.Fatal(err)
		}
		w.addr = u.Host
		return ""
	})
}

// kill kills the server, without a chance to say a word.
func (w *wire) kill() {
	if w.cmd != nil {
		_ = w.cmd.Process.Signal(syscall.SIGKILL)
		_ = w.cmd.Wait()
		w.cmd = nil
	}
}

// end ends the server with its sandbox, in order.
func (w *wire) end() {
	if w.cmd == nil {
		return // it was killed, and none came after it
	}
	if r := w.g.run("daemon", "stop", "--force"); r.code != 0 {
		w.t.Errorf("daemon stop: %s", r)
		_ = w.cmd.Process.Kill()
	}
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("the server ended with %v", err)
	}
}

// create makes the sandbox.
func (w *wire) create(key string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+w.addr+"/v2/sandboxes", strings.NewReader(`{"templateID":"base","timeout":3600}`))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ SandboxID, EnvdAccessToken string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || resp.StatusCode != http.StatusCreated {
		w.t.Fatal(resp.Status, err)
	}
	w.sandbox, w.token = api.SandboxID(made.SandboxID), made.EnvdAccessToken
	http.DefaultClient.CloseIdleConnections()
}

// check wants the sandbox as it was, the command that was heard known whole, and none
// that was half asked for.
func (w *wire) check(name, output string) {
	w.t.Helper()
	c := w.g.client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.Sandboxes.Get(ctx, string(w.sandbox))
	if err != nil {
		w.t.Fatalf("byte %d: %v", w.at, err)
	}
	defer s.Close()
	var x api.Exec
	until(w.t, fmt.Sprintf("byte %d: the command's record is final", w.at), func() string {
		all, err := s.Execs(ctx)
		i := slices.IndexFunc(all, func(x api.Exec) bool { return slices.Contains(x.Args, name) })
		if err != nil || i < 0 {
			return fmt.Sprintf("%+v, %v", all, err)
		}
		if x = all[i]; x.State == api.ExecRunning {
			return "it runs"
		}
		if j := slices.IndexFunc(all, func(x api.Exec) bool { return slices.Contains(x.Args, "/tmp/asked") }); j >= 0 {
			w.t.Fatalf("byte %d: a command that nobody asked for whole: %+v", w.at, all[j])
		}
		return ""
	})
	if x.State != api.ExecExited || x.Exit.Code != 3 || x.OutputBytes != int64(len(output)) {
		w.t.Errorf("byte %d: the record is %+v", w.at, x)
	}
	r := w.g.run("sandbox", "logs", string(w.sandbox), string(x.ID))
	if r.code != 0 || r.stdout != output {
		w.t.Errorf("byte %d: of the command is left: %s", w.at, r)
	}
	if _, err := s.Stat(ctx, "", "/tmp/asked"); api.KindOf(err) != api.KindNotFound {
		w.t.Errorf("byte %d: what nobody asked for whole has run: %v", w.at, err)
	}
}
