//go:build linux

package guest

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
)

// TestTracedCommand ends a command while another process traces it. The tracer gets the
// status first; until then the guest must not report an end.
func TestTracedCommand(t *testing.T) {
	g := startGuest(t, guestOptions{})
	yes := true
	ps, err := g.client.Start(t.Context(), &envd.StartRequest{
		Process: &envd.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "read x; exit 7"}}, Stdin: &yes,
	}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	first, err := ps.Next()
	if err != nil || first.Start == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	pid := int(first.Start.PID)
	runtime.LockOSThread() // which traces
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); errors.Is(err, unix.EPERM) {
		t.Skipf("this test may not trace a process here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	sel := envd.Selector{PID: &first.Start.PID}
	if err := g.client.SendInput(t.Context(), sel, envd.ProcessInput{Stdin: []byte("\n")}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil); err != nil {
		t.Fatal(err)
	}
	for range 50 { // it has ended; give the guest time to report a wrong end
		if _, err := g.client.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := ps.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.End != nil {
			if ev.End.ExitCode != 7 || !ev.End.Exited {
				t.Errorf("it ended with 7, and the guest reports %+v", ev.End)
			}
			return
		}
	}
}
