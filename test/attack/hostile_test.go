package attack

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	wait "hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/tools"
)

// This file puts a hostile program in the place of a guest that has a kernel of its
// own: its one socket leads to the keeper, outside that kernel.

// hostileMain is that program. What it does is told among the sandbox's variables.
func hostileMain() int {
	buf := make([]byte, birth.MaxPacket)
	_, packet, err := hostileReceive(buf)
	var cfg birth.Config
	if err != nil || json.Unmarshal(packet, &cfg) != nil {
		return 1
	}
	lie := cfg.Env[lieVariable]
	if birthLie, ok := strings.CutPrefix(lie, "birth "); ok {
		hostilePackets(birthLie)
		hostileSilence()
	}
	say := func(s string) { unix.Write(0, []byte(s)) }
	say(`{"ready":true}`)
	for { // streams and a save may come before "go", too

		fd, packet, err := hostileReceive(buf)
		if err != nil {
			return 1
		}
		switch {
		case bytes.HasPrefix(packet, []byte(birth.GoPacket)):
			// The variables may come as late as this.
			var claim birth.Claim
			if json.Unmarshal(packet[len(birth.GoPacket):], &claim) == nil && claim.Env[lieVariable] != "" {
				lie = claim.Env[lieVariable]
			}
			switch lie {
			case "closes its socket":
				for fd := range 3 {
					unix.Close(fd)
				}
				hostileSilence()
			case "reads nothing":
				hostileSilence()
			case "exits":
				return 0
			case "garbage", "huge packets", "descriptors", "reports without end", "quiet without end":
				go hostilePackets(lie)
			}
		case string(packet) == birth.QuietPacket:
			switch lie {
			case "never quiet":
			case "quiet with an error":
				say(`{"quiet":true,"error":"` + strings.Repeat("\\u001b[2J", 200) + `"}`)
			case "quiet in megabytes":
				say(`{"quiet":true,"error":"` + strings.Repeat("x", 100<<10) + `"}`)
			default:
				say(`{"quiet":true}`) // while it holds streams
			}
		case fd >= 0 && lie == "holds every stream":
		case fd >= 0 && lie == "drops every stream":
			unix.Close(fd)
		case fd >= 0:
			c, err := net.FileConn(os.NewFile(uintptr(fd), "stream"))
			if err == nil {
				go serveLie(lie, c)
			}
		}
	}
}

func hostileSilence() {
	for {
		unix.Pause()
	}
}

// hostileReceive reads a packet and the descriptor beside it, or -1.
func hostileReceive(buf []byte) (int, []byte, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(0, buf, oob, 0)
	for err == unix.EINTR || err == unix.EAGAIN {
		unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1)
		n, oobn, _, _, err = unix.Recvmsg(0, buf, oob, 0)
	}
	if err == nil && n == 0 {
		err = unix.EPIPE
	}
	if err != nil {
		return -1, nil, err
	}
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) > 0 {
		if fds, err := unix.ParseUnixRights(&msgs[0]); err == nil && len(fds) > 0 {
			return fds[0], buf[:n], nil
		}
	}
	return -1, buf[:n], nil
}

// hostilePackets sends one kind of packet until there is nobody to take it.
func hostilePackets(kind string) {
	packet, fds := []byte("\x00\xff{]garbage"), []int(nil)
	switch kind {
	case "huge", "huge packets":
		packet = []byte(`{"ready":true,"error":"` + strings.Repeat("A", 100<<10) + `"}`)
	case "not ready":
		packet = []byte(`{"ready":false,"stage":"` + strings.Repeat("S", 1000) + `","error":"\u001b[2J` + strings.Repeat("\u00ff", 500) + `"}`)
	case "descriptors":
		packet = []byte(`{"ready":false,"error":"descriptors"}`)
		for range 100 {
			if p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
				fds = append(fds, p[0], p[1])
			}
		}
	case "reports without end":
		packet = []byte(`{"ready":true}`)
	case "quiet without end":
		packet = []byte(`{"quiet":true}`)
	case "exit":
		os.Exit(3)
	case "silence":
		return
	}
	for {
		var oob []byte
		if fds != nil {
			oob = unix.UnixRights(fds...)
		}
		switch err := unix.Sendmsg(0, packet, oob, nil, unix.MSG_NOSIGNAL); {
		case err == unix.EINTR || err == unix.EAGAIN:
			unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLOUT}}, -1)
		case err != nil && fds != nil:
			fds = nil // its kernel cannot send its own descriptors; without them then
		case err != nil:
			return
		}
	}
}

// hostilePrograms is a directory as the honest one, but for this program in the
// guest's place.
func hostilePrograms(t *testing.T) string {
	t.Helper()
	if dynamic(t) {
		t.Skip("this test is linked to libraries, which a guest has none of: CGO_ENABLED=0 runs it")
	}
	honest, dir := tools.Dir(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, filepath.Dir(tools.Guest)), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{tools.Runsc: filepath.Join(honest, tools.Runsc), tools.Guest: "/proc/self/exe"} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check(t, "chmod", os.Chmod(dir, 0o755))
	return dir
}

// dynamic reports whether this program needs a loader.
func dynamic(t *testing.T) bool {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// TestHostileGuest speaks to guests that lie on their socket to the keeper, and to
// some that lie in their answers: what harms the host through a container's guest
// does not through this one's.
func TestHostileGuest(t *testing.T) {
	tier.AnyUser(t)
	calm := newWorldOf(t, "gvisor", "")
	honest := calm.create(t, nil)
	w := newWorldOf(t, "gvisor", hostilePrograms(t))
	bounded(t, 128<<20)
	for _, lie := range []struct {
		name     string
		believed bool
	}{
		{"closes its socket", false}, {"reads nothing", false}, {"exits", false}, {"garbage", false}, {"huge packets", false},
		{"descriptors", false}, {"reports without end", false}, {"quiet without end", false},
		{"holds every stream", false}, {"drops every stream", false},
		{"endless headers", false}, {"frame of 4 GiB", false}, {"endless output", false}, {"exit at request", false}, {"invented cause", true},
	} {
		t.Run(lie.name, func(t *testing.T) {
			req := api.CreateSandbox{Isolation: "gvisor", TTLMS: (10 * time.Minute).Milliseconds(),
				Env: map[string]string{lieVariable: lie.name}, Limits: api.Limits{OutputBytes: 1 << 20}}
			box, err := w.Create(within(t), req)
			if err != nil {
				if !honestErrors[api.KindOf(err)] || lie.name != "exits" && lie.name != "closes its socket" {
					t.Errorf("create: %v", err)
				}
				return
			}
			t.Cleanup(func() { w.kill(t, box.ID) })
			ends(t, "a command", func() { w.commandOfLiar(t, box.ID, lie.believed) })
			// One that is there to be spoken to is there: what dies at once proves less.
			if row, err := w.Get(t.Context(), box.ID); !strings.HasPrefix(lie.name, "exit") && lie.name != "closes its socket" && (err != nil || row.State != api.SandboxRunning) {
				t.Errorf("the sandbox is %s (%s), %v: the guest did not lie but end", row.State, row.Reason, err)
			}
			if pid := w.keeper(t, box.ID); pid > 0 {
				if rss := residentOf(pid); rss > 64<<20 {
					t.Errorf("its keeper has %d bytes", rss)
				}
			}
			calm.alive(t, honest.ID)
			ends(t, "the kill", func() { w.kill(t, box.ID) })
		})
	}
	calm.alive(t, honest.ID)
}

// TestHostileBirth is of guests that say something else than that they are ready.
func TestHostileBirth(t *testing.T) {
	tier.AnyUser(t)
	w := newWorldOf(t, "gvisor", hostilePrograms(t))
	bounded(t, 64<<20)
	for _, lie := range []string{"garbage", "huge", "not ready", "descriptors", "quiet without end", "exit", "silence"} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			// What says nothing that counts is waited for until this.
			ctx, cancel := context.WithTimeout(t.Context(), wait.Of(10*time.Second))
			defer cancel()
			ended := make(chan error, 1)
			id := api.NewSandboxID()
			go func() {
				m, err := w.backend.Start(ctx, w.spec(t, id, map[string]string{lieVariable: "birth " + lie}))
				if err == nil {
					m.Kill(context.WithoutCancel(ctx))
				}
				ended <- err
			}()
			var err error
			select {
			case err = <-ended:
			case <-time.After(2 * patience):
				t.Fatal("the start does not end")
			}
			if err == nil {
				t.Fatal("the sandbox started")
			}
			if k := api.KindOf(err); k != api.KindInternal && k != api.KindTimeout && k != api.KindUnisolated {
				t.Errorf("%v is of kind %s", err, k)
			}
			if len(err.Error()) > 2<<10 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error is of %d bytes: %.200q", len(err.Error()), err)
			}
			if left := w.leftovers(id); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestHostileSave asks guests to be quiet that are not.
func TestHostileSave(t *testing.T) {
	tier.AnyUser(t)
	w := newWorldOf(t, "gvisor", hostilePrograms(t))
	for _, c := range []struct {
		lie string
		ok  bool // a guest that says nothing wrong may be saved
	}{{"never quiet", false}, {"quiet with an error", false}, {"quiet in megabytes", false}, {"quiet without end", true}, {"holds every stream", true}} {
		t.Run(c.lie, func(t *testing.T) {
			t.Parallel()
			id := api.NewSandboxID()
			m, err := w.backend.Start(within(t), w.spec(t, id, map[string]string{lieVariable: c.lie}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				proof, err := m.Kill(within(t))
				if err != nil || proof.Left != 0 {
					t.Errorf("kill: %+v, %v", proof, err)
				}
			}()
			if c.lie == "holds every stream" {
				conn, err := m.Link().Open(within(t))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			ends(t, "the save", func() {
				_, err = m.Save(within(t), t.TempDir(), sandbox.SaveOptions{})
			})
			if err == nil && !c.ok {
				t.Error("it was saved")
			}
			if err != nil && (!honestErrors[api.KindOf(err)] || len(err.Error()) > 1<<10 || strings.ContainsAny(err.Error(), "\x1b\n")) {
				t.Errorf("%.300q is of kind %s", err, api.KindOf(err))
			}
			t.Logf("%v", err)
		})
	}
}

// spec is a sandbox of the host template.
func (w *world) spec(t *testing.T, id api.SandboxID, env map[string]string) sandbox.Spec {
	t.Helper()
	return sandbox.Spec{ID: id, Layers: []layer.Digest{w.tree}, Limits: api.DefaultLimits(), Hostname: "hostile", Env: env}
}
