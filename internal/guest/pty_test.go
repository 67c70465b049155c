//go:build linux

package guest

import (
	"context"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

func TestTerminal(t *testing.T) {
	g := startGuest(t, guestOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	s, err := g.client.Start(ctx, &envd.StartRequest{
		Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "stty size; tty; read x; stty size; echo got $x; exit 4"}},
		PTY:     &envd.PTY{Size: &envd.Size{Cols: 81, Rows: 23}},
	}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	var sel envd.Selector
	var end *envd.EndEvent
	var sent bool
	for {
		ev, err := s.Next()
		if err != nil {
			break
		}
		switch {
		case ev.Start != nil:
			pid := ev.Start.PID
			sel.PID = &pid
		case ev.Data != nil:
			out.Write(ev.Data.PTY)
			if len(ev.Data.Stdout)+len(ev.Data.Stderr) > 0 {
				t.Error("a terminal's output is not called pty")
			}
		case ev.End != nil:
			e := *ev.End
			end = &e
		}
		if !sent && strings.Contains(out.String(), "/dev/pts/") {
			sent = true
			if err := g.client.Resize(ctx, sel, envd.Size{Cols: 132, Rows: 50}); err != nil {
				t.Fatal(err)
			}
			if err := g.client.SendInput(ctx, sel, envd.ProcessInput{PTY: []byte("hello\n")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{"23 81", "/dev/pts/", "50 132", "got hello"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	if end == nil || end.ExitCode != 4 {
		t.Errorf("%+v", end)
	}
}

func TestSignalsBySelector(t *testing.T) {
	g := startGuest(t, guestOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	s, err := g.client.Start(ctx, shell("trap 'echo usr1; exit 5' USR1; echo ready; while :; do sleep 0.05; done"), envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	pid := ev.Start.PID
	if ev, err = s.Next(); err != nil || string(ev.Data.Stdout) != "ready\n" {
		t.Fatal(ev, err)
	}
	if err := g.client.SendSignal(ctx, envd.Selector{PID: &pid}, 10); err != nil {
		t.Fatal(err)
	}
	var r result
	collect(s, &r)
	if r.stdout.String() != "usr1\n" || r.end == nil || r.end.ExitCode != 5 {
		t.Errorf("%q %+v %v", r.stdout.String(), r.end, r.err)
	}
}

func TestKeepalive(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := startGuest(t, guestOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	s, err := g.client.Start(ctx, shell("sleep 60"), envd.StartOptions{Keepalive: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		ev, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Keepalive != nil {
			return
		}
	}
}
