//go:build linux

package guest

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/test/tier"
)

func TestCommandGivesOutputAndExitCode(t *testing.T) {
	g := startGuest(t, guestOptions{})
	for _, tc := range []struct {
		script, stdout, stderr string
		code                   int32
		status                 string
	}{
		{"echo hello; echo oops >&2", "hello\n", "oops\n", 0, "exit status 0"},
		{"exit 3", "", "", 3, "exit status 3"},
		{"kill -9 $$", "", "", 137, "signal: killed"},
		{"kill -15 $$", "", "", 143, "signal: terminated"},
		{"pwd", "WORK\n", "", 0, "exit status 0"},
		{"echo $FROM_CONFIG $USER $TERM", "yes user\n", "", 0, "exit status 0"},
		{"umask; ulimit -c", "0022\n0\n", "", 0, "exit status 0"},
	} {
		r := g.mustRun(t, tc.script)
		if got := r.stdout.String(); got != strings.ReplaceAll(tc.stdout, "WORK", g.cfg.Workspace) {
			t.Errorf("%s: stdout %q, want %q", tc.script, got, tc.stdout)
		}
		if got := r.stderr.String(); got != tc.stderr {
			t.Errorf("%s: stderr %q, want %q", tc.script, got, tc.stderr)
		}
		if r.end.ExitCode != tc.code || r.end.Status != tc.status || r.pid == 0 {
			t.Errorf("%s: pid %d, end %+v", tc.script, r.pid, r.end)
		}
	}
}

func TestStartRefusals(t *testing.T) {
	g := startGuest(t, guestOptions{})
	missing := "/no/such/dir"
	for _, tc := range []struct {
		name string
		cfg  *envd.ProcessConfig
		user string
		code string
		text string
	}{
		{"cwd", &envd.ProcessConfig{Cmd: "/bin/true", Cwd: &missing}, "", envd.CodeInvalidArgument, "cwd '/no/such/dir' does not exist"},
		{"missing", &envd.ProcessConfig{Cmd: "no-such-cmd"}, "", envd.CodeNotFound, "command not found: no-such-cmd"},
		{"missing path", &envd.ProcessConfig{Cmd: "/no/cmd"}, "", envd.CodeNotFound, "command not found: /no/cmd"},
		{"not executable", &envd.ProcessConfig{Cmd: "/etc/passwd"}, "", envd.CodePermissionDenied, "permission denied: /etc/passwd"},
		{"user", &envd.ProcessConfig{Cmd: "/bin/true"}, "nobody-here", envd.CodeUnauthenticated, "not found in this sandbox"},
		{"nothing", nil, "", envd.CodeInvalidArgument, "has no command"},
		{"env", &envd.ProcessConfig{Cmd: "/bin/true", Envs: map[string]string{"A=B": "c"}}, "", envd.CodeInvalidArgument, "environment variable"},
	} {
		r := g.run(t, &envd.StartRequest{Process: tc.cfg}, envd.StartOptions{User: tc.user})
		var e *envd.Error
		if !errors.As(r.err, &e) || e.Code != tc.code || !strings.Contains(e.Message, tc.text) {
			t.Errorf("%s: %v", tc.name, r.err)
		}
	}
	if r := g.mustRun(t, "echo still here"); r.stdout.String() != "still here\n" {
		t.Error("the guest does not work any more")
	}
}

// A hundred megabytes in through StreamInput and out again, unchanged.
func TestBulkThroughStdin(t *testing.T) {
	tier.AnyUser(t)
	g := startGuest(t, guestOptions{})
	total := 100 << 20
	if testing.Short() {
		total = 10 << 20
	}
	ctx := t.Context()
	s, err := g.client.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "cat"}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid := ev.Start.PID
	sent := sha256.New()
	fed := make(chan error, 1)
	go func() {
		w, err := g.client.StreamInput(ctx, envd.Selector{PID: &pid})
		if err != nil {
			fed <- err
			return
		}
		src := io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(total))
		_, err = io.Copy(w, io.TeeReader(src, sent))
		err = errors.Join(err, w.Close(), g.client.CloseStdin(ctx, envd.Selector{PID: &pid}))
		fed <- err
	}()
	got := sha256.New()
	var n int
	for {
		ev, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			n += len(ev.Data.Stdout)
			got.Write(ev.Data.Stdout)
		}
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	if n != total || string(got.Sum(nil)) != string(sent.Sum(nil)) {
		t.Fatalf("%d of %d bytes came back, or others", n, total)
	}
}

// A client that leaves does not end its process, and another finds its output.
func TestReattachByOffset(t *testing.T) {
	g := startGuest(t, guestOptions{})
	g.mustRun(t, "mkfifo gate")
	ctx, leave := context.WithCancel(t.Context())
	s, err := g.client.Start(ctx, shell("echo one; read x < gate; echo two >&2; exit 7"), envd.StartOptions{ExecID: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	if ev, err := s.Next(); err != nil || string(ev.Data.Stdout) != "one\n" {
		t.Fatalf("%+v, %v", ev, err)
	}
	leave()
	s.Next()
	g.mustRun(t, "echo go > gate")
	for range 2 { // while it may still run, and after it has ended
		s, err = g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "e1", Offset: 2})
		if err != nil {
			t.Fatal(err)
		}
		var r result
		collect(s, &r)
		if r.err != nil || r.stdout.String() != "e\n" || r.stderr.String() != "two\n" || r.end == nil || r.end.ExitCode != 7 {
			t.Fatalf("%q %q %+v %v", r.stdout.String(), r.stderr.String(), r.end, r.err)
		}
	}
	r := g.run(t, shell("true"), envd.StartOptions{ExecID: "e1"})
	if r.err == nil || envd.FromAPI(r.err).Code != envd.CodeAlreadyExists {
		t.Fatalf("a taken exec id: %v", r.err)
	}
}

func TestTimeoutKillsTheTree(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := startGuest(t, guestOptions{})
	r := g.run(t, shell("sleep 1000 & echo $!; setsid sleep 1000 & echo $!; wait"), envd.StartOptions{Timeout: 2 * time.Second})
	if r.err != nil || r.end == nil || r.end.Cause != api.CauseTimeout || r.end.ExitCode != 137 {
		t.Fatalf("end %+v, %v", r.end, r.err)
	}
	pids := append(strings.Fields(r.stdout.String()), strconv.Itoa(int(r.pid)))
	if len(pids) != 3 {
		t.Fatalf("the command told %q", r.stdout.String())
	}
	for _, s := range pids {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "process "+s+" is gone", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	}
}

func TestOutputLimit(t *testing.T) {
	g := startGuest(t, guestOptions{})
	r := g.run(t, shell("yes"), envd.StartOptions{OutputLimit: 100_000})
	if r.err != nil || r.end == nil || r.end.Cause != api.CauseOutput || r.stdout.Len() != 100_000 {
		t.Fatalf("%d bytes, end %+v, %v", r.stdout.Len(), r.end, r.err)
	}
}

// A grandchild that keeps the pipe open does not delay the end of the command, and is not
// killed by SIGPIPE.
func TestGrandchildKeepsThePipe(t *testing.T) {
	g := startGuest(t, guestOptions{})
	r := g.mustRun(t, "mkfifo gate; setsid sh -c 'read x < gate; echo late; echo later && touch done' & echo early")
	if r.stdout.String() != "early\n" || r.end.ExitCode != 0 {
		t.Fatalf("%q %+v", r.stdout.String(), r.end)
	}
	g.mustRun(t, "echo go > gate")
	until(t, "the grandchild could write", func() bool {
		_, err := g.client.Stat(t.Context(), "", "done")
		return err == nil
	})
}
