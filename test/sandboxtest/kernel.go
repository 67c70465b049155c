package sandboxtest

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// kernelCases tell a kernel of the sandbox's own from the host's.
func kernelCases() []Case {
	return []Case{
		{Name: "kernel/whose-processes", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapPrivateFiles}, Check: func(t *testing.T, s *Suite) {
			// What no kernel can hide from its own table of processes.
			mark := "hortus-mark-" + rand.Text()
			b := s.start(t, nil)
			b.sh(t, "sh -c 'sleep 1000; :' "+mark+" >/dev/null 2>&1 & until grep -aq "+mark+" /proc/$!/cmdline; do sleep 0.01; done").want(t, 0, "")
			if s.OwnKernel {
				if n := hostProcesses(mark); n != 0 {
					t.Errorf("the host's kernel has %d processes of the sandbox's: the kernel inside is not another one", n)
				}
				return
			}
			// The control: on the host's kernel it is found.
			eventually(t, "the host sees the process", func() bool { return hostProcesses(mark) > 0 })
		}},
		{Name: "kernel/is-not-the-hosts", Needs: []api.Capability{api.CapStart, api.CapPrivateFiles}, Check: func(t *testing.T, s *Suite) {
			if !s.OwnKernel {
				t.Skipf("%s runs on the host's kernel", s.Backend.Name())
			}
			b := s.start(t, nil)
			var uts unix.Utsname
			if err := unix.Uname(&uts); err != nil {
				t.Fatal(err)
			}
			told := func(what, inside, outside string) {
				t.Helper()
				inside, outside = strings.TrimSpace(inside), strings.TrimSpace(outside)
				if outside != "" && inside == outside {
					t.Errorf("%s is %q, as on the host", what, inside)
				}
			}
			told("the kernel's version", b.sh(t, "uname -rv").Stdout, unix.ByteSliceToString(uts.Release[:])+" "+unix.ByteSliceToString(uts.Version[:]))
			for _, name := range []string{"/proc/version", "/proc/sys/kernel/random/boot_id", "/proc/cmdline", "/proc/modules", "/proc/mounts", "/proc/stat"} {
				outside, _ := os.ReadFile(name)
				told(name, b.sh(t, "cat "+name+" 2>/dev/null; true").Stdout, string(outside))
			}
			for _, user := range s.users() {
				there := "ls /proc/kcore /proc/kallsyms /proc/kmsg"
				if s.FullKernel { // the names are there, and nothing in them
					there = "for f in kcore kallsyms kmsg; do timeout 5 head -c 1 /proc/$f; done"
				}
				r := b.run(t, user, "sh", "-c", there+` 2>/dev/null; ls /dev/kmsg /dev/mem /dev/kvm 2>/dev/null
for d in block bus/pci/devices bus/usb/devices class/block class/dmi class/net firmware fs/bpf fs/ext4 kernel/debug kernel/security kernel/tracing module; do
	[ -z "$(ls -A /sys/$d 2>/dev/null)" ] || echo /sys/$d; done; true`)
				if r.Stdout != "" {
					t.Errorf("%s sees %q of a machine", user, r.Stdout)
				}
				if s.FullKernel {
					continue
				}
				// Calls that the host's kernel has and this one never had: they are not
				// refused but unknown.
				r = b.run(t, user, "python3", "-c", `
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
known = []
for name, number in {"io_uring_setup": 425, "landlock_create_ruleset": 444, "listmount": 458}.items():
    libc.syscall(number, 0, 0, 0, 0, 0, 0)
    if ctypes.get_errno() != errno.ENOSYS: known.append((name, errno.errorcode.get(ctypes.get_errno())))
print(known)`)
				r.want(t, 0, "[]\n")
			}
		}},
		{Name: "kernel/memory-ends-with-its-cause", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapLimitMemory}, Check: func(t *testing.T, s *Suite) {
			a, _ := s.Report.Has(api.CapLimitMemory)
			for _, c := range []struct {
				name, user, script string
				watched            bool // by a guest's watch, where that is all there is
			}{
				{"slowly", "", "python3 -c 'import time\nx = []\nwhile True: x.append(bytearray(b\"x\" * (1 << 20))); time.sleep(0.005)'", true},
				{"at once", "", "python3 -c 'x = b\"x\" * (3 << 30); print(\"kept\", len(x))'", true},
				{"by four", "", "for i in 1 2 3 4; do python3 -c 'x = b\"x\" * (1 << 30); print(\"kept\", len(x))' & all=\"$all $!\"; done; for p in $all; do wait $p || end=$?; done; exit $end", true},
				{"in /dev/shm", "", "dd if=/dev/zero of=/dev/shm/x bs=16M count=64 && echo kept", false},
				{"in /tmp", "", "dd if=/dev/zero of=/tmp/x bs=16M count=64 && echo kept", false},
			} {
				t.Run(c.name, func(t *testing.T) {
					if !c.watched && strings.Contains(a.Reason, "best effort") {
						t.Skipf("the limit of memory does not see files: %s", a.Reason)
					}
					if s.FullKernel && c.name == "in /tmp" {
						t.Skip("its files are not memory: they are on a disk")
					}
					if d, ok := s.Report.Has(api.CapLimitDisk); !ok && c.name == "in /tmp" {
						t.Skipf("%s lacks %s: its files are not memory: %s", s.Backend.Name(), api.CapLimitDisk, d.Reason)
					}
					b := s.start(t, func(p *sandbox.Spec) {
						p.Limits.MemoryBytes, p.Asked.Memory, p.Limits.DiskBytes = 96<<20, true, 2<<30
					})
					endsForMemory(t, b, c.script)
				})
			}
		}},
	}
}

// endsForMemory runs what takes more memory than there is. Either the command ends
// with that cause, or because a file system is full, and the sandbox continues; or the
// sandbox ends with that cause: never is it a connection that was lost without a word.
func endsForMemory(t *testing.T, b *Sandbox, script string) {
	t.Helper()
	r, err := b.try(t, "", envd.StartOptions{}, "sh", "-c", script)
	if strings.Contains(r.Stdout, "kept") {
		t.Fatalf("it was kept: %+v", r)
	}
	if err != nil {
		endedForMemory(t, b, err)
		return
	}
	st, serr := b.Machine.Stats(t.Context())
	refused := strings.Contains(r.Stderr, "No space left on device")
	if r.End.Cause != api.CauseMemory && !refused && (serr != nil || st.MemoryKills == 0) {
		t.Errorf("neither the command's end (%+v, stderr %.200q) nor the accounting (%+v, %v) says that it was for memory", r.End, r.Stderr, st, serr)
	}
	// Files stay, and then there is no memory for the next one either.
	if _, err = b.try(t, "", envd.StartOptions{}, "echo", "still here"); err != nil {
		endedForMemory(t, b, err)
	}
}

// endedForMemory wants the sandbox whose command failed to end, and to say why. That is
// known once its end was seen, which may be after a connection was cut by it.
func endedForMemory(t *testing.T, b *Sandbox, err error) {
	t.Helper()
	select {
	case <-b.Machine.Done():
	case <-time.After(patience.Of(60 * time.Second)):
		t.Fatalf("%v, and the sandbox is there", err)
	}
	if got := b.Machine.Cause(); got != api.CauseMemory {
		t.Errorf("the sandbox ended with cause %q (%v); want %q", got, err, api.CauseMemory)
	}
}

// hostProcesses counts the processes of the host's whose arguments hold a text.
func hostProcesses(text string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(text)) {
			n++
		}
	}
	return n
}
