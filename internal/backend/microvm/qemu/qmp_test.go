package qemu

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns two connected sockets.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		out[i] = c.(*net.UnixConn)
	}
	return out[0], out[1]
}

const greeting = `{"QMP": {"version": {}}}` + "\n"

// TestHostileQEMU: a QEMU that an attacker has taken over costs no more than the time of a command, and a reply of the maximum size.
// The control is one that answers.
func TestHostileQEMU(t *testing.T) {
	const ok = `{"return": {}}` + "\n"
	for name, c := range map[string]struct {
		says   string // after the greeting and the first command
		want   string // an error; empty for none
		broken bool   // whether the client is of no use afterwards
	}{
		"control":          {ok, "", false},
		"events first":     {strings.Repeat(`{"event": "STOP"}`+"\n", 1000) + ok, "", false},
		"error":            {`{"error": {"desc": "no ` + strings.Repeat("x", 1000) + `"}}` + "\n", "no x", false},
		"silence":          {"", "deadline", true},
		"endless events":   {strings.Repeat(`{"event": "STOP"}`+"\n", 1000), "deadline", true},
		"no JSON":          {"return\n", "parse", true},
		"endless line":     {strings.Repeat("x", 2*maxReply), "buffer full", true},
		"many open braces": {strings.Repeat("[", maxReply/2) + "\n", "parse", true},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			go func() {
				in := bufio.NewReader(theirs)
				io.WriteString(theirs, greeting)
				in.ReadBytes('\n')
				io.WriteString(theirs, ok)
				in.ReadBytes('\n')
				io.WriteString(theirs, c.says)
				io.Copy(io.Discard, in)
			}()
			q, err := Connect(t.Context(), ours)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			ctx := t.Context()
			if c.want == "deadline" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
			}
			err = q.Stop(ctx)
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || len(err.Error()) > 500) {
				t.Errorf("%v; want an error with %q", err, c.want)
			}
			if c.broken && q.Stop(t.Context()) == nil {
				t.Error("a client that has failed is used again")
			}
		})
	}
}

// TestNoGreeting: what is not QEMU is not controlled.
func TestNoGreeting(t *testing.T) {
	for _, says := range []string{`{"return": {}}` + "\n", "SSH-2.0\n"} {
		ours, theirs := pair(t)
		go func() { io.WriteString(theirs, says) }()
		if _, err := Connect(t.Context(), ours); err == nil {
			t.Errorf("%q was taken for QEMU", says)
		}
	}
}

// TestArguments: a machine has no network, no name of a file of the host, and QEMU's filter. Disks are read-only as was requested.
func TestArguments(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	m := Machine{Accelerator: KVM, Kernel: null, Initramfs: null, CPUs: 1, Memory: null, MemoryBytes: 64 << 20, Link: null, Control: null, PortName: "p",
		Disks: []Disk{{File: null, Serial: "layer0", ReadOnly: true}, {File: null, Serial: "upper"}}}
	args, files, err := m.args()
	if err != nil {
		t.Fatal(err)
	}
	all := " " + strings.Join(args, " ") + " "
	for _, want := range []string{" -nodefaults ", " -no-user-config ", "-sandbox on,", "spawn=deny", "node-name=disk0,read-only=on", "node-name=disk1,read-only=off"} {
		if !strings.Contains(all, want) {
			t.Errorf("the arguments lack %q: %s", want, all)
		}
	}
	for _, not := range []string{"-net", "-nic", "virtfs", "/dev/null", "usb-", "-vga"} {
		if strings.Contains(all, not) {
			t.Errorf("the arguments have %q: %s", not, all)
		}
	}
	if want := bytes.Count([]byte(all), []byte("/dev/fd/")) + bytes.Count([]byte(all), []byte("fd=")); want != len(files) {
		t.Errorf("%d files are inherited and %d are used", len(files), want)
	}
	m.Disks = make([]Disk, maxDisks+1)
	if _, _, err := m.args(); err == nil {
		t.Error("a machine has more disks than slots")
	}
}
