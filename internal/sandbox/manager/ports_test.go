package manager_test

import (
	"net"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestHostsPortsAreNotHandedOut: a sandbox without a network of its own is no way
// to what listens on this machine.
func TestHostsPortsAreNotHandedOut(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := w.Guests.Dial(t.Context(), s.ID, l.Addr().(*net.TCPAddr).Port)
	if api.KindOf(err) != api.KindUnsupported {
		t.Errorf("Dial: %v, %v", c, err)
	}
	if _, err := w.Guests.Dial(t.Context(), api.NewSandboxID(), 80); api.KindOf(err) != api.KindNotFound {
		t.Errorf("of none: %v", err)
	}
}

// TestStreamsTellTheEnd: anyone who holds a stream to a sandbox hears of the sandbox's end,
// and not before it.
func TestStreamsTellTheEnd(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	guest, err := w.Guests.Guest(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	command, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer command.Close()
	viewer, err := w.Guests.AttachExec(t.Context(), s.ID, command.Exec().ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	type ender interface{ Ended() <-chan struct{} }
	streams := map[string]any{"to the guest": guest, "of a command": command, "of one that is watched": viewer}
	for name, stream := range streams {
		select {
		case <-stream.(ender).Ended():
			t.Errorf("%s: it has ended while the sandbox runs", name)
		default:
		}
	}
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	for name, stream := range streams {
		select {
		case <-stream.(ender).Ended():
		case <-time.After(time.Minute):
			t.Errorf("%s: the end is not told", name)
		}
	}
}
