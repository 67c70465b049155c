package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

func limitCases() []Case {
	needs := func(c api.Capability) []api.Capability { return []api.Capability{api.CapStart, c} }
	return []Case{
		{Name: "limit/memory", Claimed: true, PerUser: true, Needs: needs(api.CapLimitMemory), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Asked.Memory = 96<<20, true })
			r, err := b.try(t, "", startOptions(), "python3", "-c", "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('kept', len(x))")
			if err != nil && s.OwnKernel {
				// What is faster than the guest's watch meets the control group's limit,
				// which ends the kernel.
				b.endedByMemory(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Code() == 0 || strings.Contains(r.Stdout, "kept") {
				t.Fatalf("400 MB were used under a limit of 96 MB: %+v", r)
			}
			if r.Code() == 128+9 && r.End.Cause != api.CauseMemory {
				st, err := b.Machine.Stats(t.Context())
				if err != nil || st.MemoryKills == 0 {
					t.Errorf("killed, but neither the end (%+v) nor the accounting (%+v, %v) says that it was for memory", r.End, st, err)
				}
			}
			b.sh(t, "echo still here").want(t, 0, "still here\n")
		}},
		{Name: "limit/memory-ends-one-process", PerUser: true, Needs: needs(api.CapLimitMemory), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Asked.Memory = 128<<20, true })
			a, _ := s.Report.Has(api.CapLimitMemory)
			ends := strings.Contains(a.Reason, "the sandbox ends") // if a command is faster than the guest's watch
			// The shell sees what became of its program, and decides how the command ends.
			r, err := b.try(t, "", startOptions(), "sh", "-c", `sleep 1000 & python3 -c 'x = b"x" * (3 << 30)'; echo "program $?"; kill $! && echo "the other one continues"; exit 7`)
			if err != nil && ends {
				b.endedByMemory(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r.want(t, 7, "program 137\nthe other one continues\n")
			if r.End.Cause != "" {
				t.Errorf("a shell that went on ended with the cause %q", r.End.Cause)
			}
			r, err = b.try(t, "", startOptions(), "python3", "-c", `x = b"x" * (3 << 30)`)
			if err != nil && ends {
				b.endedByMemory(t, err)
				return
			}
			if err != nil || r.Code() != 137 {
				t.Errorf("the program itself: %+v, %v", r, err)
			}
			b.sh(t, "echo still here").want(t, 0, "still here\n")
		}},
		{Name: "limit/memory-of-many-processes", PerUser: true, Needs: needs(api.CapLimitMemory), Check: func(t *testing.T, s *Suite) {
			if a, _ := s.Report.Has(api.CapLimitMemory); !s.OwnKernel || strings.Contains(a.Reason, "best effort") || strings.Contains(a.Reason, "the sandbox ends") {
				t.Skipf("it depends on another kernel which of several programs ends: %s", a.Reason)
			}
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Asked.Memory = 128<<20, true })
			b.sh(t, `for i in 1 2 3 4 5 6 7 8; do python3 -c 'x = b"x" * (1 << 30); print("kept")' & done; wait; echo done`).want(t, 0, "done\n")
		}},
		{Name: "limit/programs-see-them", Claimed: true, PerUser: true, Needs: needs(api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Limits.CPUs = 320<<20, 1 })
			for _, user := range s.users() {
				b.seesLimits(t, user)
			}
			// A limit that is read is not one to write.
			r := b.run(t, s.users()[0], "sh", "-c", `for f in memory.max cpu.max pids.max cgroup.procs cgroup.kill; do (echo 1 > /sys/fs/cgroup/$f) 2>/dev/null && echo "$f was written"; done; mkdir /sys/fs/cgroup/x 2>/dev/null && echo made; true`)
			r.want(t, 0, "")
		}},
		{Name: "limit/processes", Claimed: true, PerUser: true, Needs: needs(api.CapLimitProcs), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.Processes, p.Asked.Processes = 40, true })
			r := b.run(t, "", "python3", "-c", `
import os, time, signal
n = 0
try:
    while n < 400:
        if os.fork() == 0:
            time.sleep(1000); os._exit(0)
        n += 1
except OSError as e:
    print("stopped", e.errno, flush=True)
print(n, flush=True)
os.killpg(0, signal.SIGKILL)`)
			if !strings.HasPrefix(r.Stdout, "stopped 11\n") {
				t.Errorf("400 processes under a limit of 40: %+v", r)
			}
			eventually(t, "the sandbox can start commands again", func() bool {
				r, err := b.try(t, "", startOptions(), "true")
				return err == nil && r.Code() == 0
			})
		}},
		{Name: "limit/disk", PerUser: true, Needs: needs(api.CapLimitDisk), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.DiskBytes, p.Asked.Disk = 32<<20, true })
			for _, dir := range []string{"/tmp", "/workspace", "/home/user", "/dev/shm", "/var/tmp", "/run"} {
				r := b.sh(t, "cd "+dir+" 2>/dev/null || exit 99; [ -w . ] || exit 99; head -c 100000000 /dev/zero > big; s=$?; wc -c < big; rm -f big; exit $s")
				if r.Code() == 99 {
					continue // not there, or not to be written to
				}
				if r.Code() == 0 {
					t.Errorf("%s: 100 MB were written under a limit of 32 MB", dir)
				}
			}
			b.sh(t, "echo fits > /tmp/small; cat /tmp/small").want(t, 0, "fits\n")
			b.sh(t, "head -c 8000000 /dev/urandom > /tmp/counted").want(t, 0, "")
			if st, err := b.Machine.Stats(t.Context()); err != nil || st.DiskUsedBytes >= 0 && st.DiskUsedBytes < 8_000_000 {
				t.Errorf("8 MB were written: %d bytes of the disk are used, %v; want -1 if they are not counted", st.DiskUsedBytes, err)
			}
		}},
		{Name: "limit/inodes", PerUser: true, Needs: needs(api.CapLimitDisk), Check: func(t *testing.T, s *Suite) {
			if a, _ := s.Report.Has(api.CapLimitMemory); s.OwnKernel && a.Fix != "" {
				t.Skipf("files without content are memory of the sandbox's own kernel, which this host does not bound: %s", a.Reason)
			}
			b := s.start(t, func(p *sandbox.Spec) {
				p.Limits.DiskBytes, p.Asked.Disk = 16<<20, true
				p.Limits.MemoryBytes, p.Asked.Memory = 128<<20, true
				if s.OwnKernel {
					p.Limits.MemoryBytes = 64 << 20 // what ends it there
				}
			})
			r, err := b.try(t, "", startOptions(), "python3", "-c", `
import os, errno
n = 0
try:
    os.mkdir("/tmp/many"); os.chdir("/tmp/many")
    while n < 2_000_000:
        open(str(n), "w").close(); n += 1
except OSError as e:
    print("stopped", errno.errorcode[e.errno])`)
			if s.OwnKernel {
				// Files without content have no bound of their own there: they are memory
				// of that kernel, whose limit ends the command or the sandbox.
				if err == nil && r.Stdout != "stopped ENOSPC\n" && r.End.Cause != api.CauseMemory {
					t.Errorf("2,000,000 files under a memory limit of 64 MB: %+v", r)
				}
				if err != nil {
					b.endedByMemory(t, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Stdout != "stopped ENOSPC\n" {
				t.Errorf("2,000,000 files under a disk limit of 16 MB: %+v", r)
			}
		}},
		{Name: "limit/cpu-share", PerUser: true, Alone: true, Needs: needs(api.CapLimitCPU), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(p *sandbox.Spec) { p.Limits.CPUs, p.Asked.CPUs = 0.25, true })
			// Judged by the host's own accounting against the time that passed, so
			// that a busy host cannot fail it.
			used := func() (int64, time.Time) {
				t.Helper()
				if s.CPUTime != nil {
					return s.CPUTime(t, b.ID).Milliseconds(), time.Now()
				}
				st, err := b.Machine.Stats(t.Context())
				if err != nil || st.CPUTimeMS < 0 {
					t.Fatalf("stats %+v, %v; a share that is held is counted", st, err)
				}
				return st.CPUTimeMS, st.At
			}
			before, begin := used()
			b.run(t, "", "python3", "-c", "import time\nt = time.monotonic()\nwhile time.monotonic() - t < 2: pass").want(t, 0, "")
			after, end := used()
			if d := end.Sub(begin); after == before || time.Duration(after-before)*time.Millisecond > d/2 {
				t.Errorf("%d ms of processor time were used in %v with a share of a quarter", after-before, d)
			}
		}},
		{Name: "limit/cpu-time-is-counted", PerUser: true, Alone: true, Needs: needs(api.CapLimitCPUTime), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.run(t, "", "python3", "-c", "import time\nwhile time.process_time() < 0.3: pass")
			eventually(t, "the accounting shows 300 ms", func() bool {
				st, err := b.Machine.Stats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return st.CPUTimeMS >= 290
			})
		}},
		{Name: "limit/one-sandbox-does-not-starve-another", PerUser: true, Alone: true, Needs: needs(api.CapLimitMemory), Check: func(t *testing.T, s *Suite) {
			bad := s.start(t, func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Asked.Memory = 64<<20, true })
			good := s.start(t, nil)
			done := make(chan struct{})
			go func() {
				defer close(done)
				bad.try(t, "", startOptions(), "python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))")
			}()
			for range 20 {
				good.sh(t, "echo fine").want(t, 0, "fine\n")
			}
			select {
			case <-done:
			case <-time.After(patience.Of(60 * time.Second)):
				t.Error("the memory hog was not stopped")
			}
		}},
	}
}

// seesLimits checks what programs size themselves by, in a sandbox of 320 MiB and one processor.
func (b *Sandbox) seesLimits(t *testing.T, user string) {
	t.Helper()
	for _, c := range []struct{ program, script, want string }{
		{"sh", "sed -n 's/^MemTotal: *//p' /proc/meminfo", "327680 kB"},
		{"free", "free -m | sed -n 's/^Mem: *\\([0-9]*\\) .*/\\1/p'", "320"},
		{"nproc", "nproc", "1"},
		{"sh", "grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l", "1\n1\n1"},
		{"sh", "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max", "335544320\n100000 100000"},
		{"python3", "python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))'", "1 1"},
		{"node", `node -e 'const os = require("os"); console.log(os.cpus().length, os.availableParallelism(), os.totalmem() >> 20, require("v8").getHeapStatistics().heap_size_limit < 320 << 20)'`, "1 1 320 true"},
		// A quarter is the JVM's default. It knows control groups only.
		{"java", "grep -q ' /sys/fs/cgroup .* - cgroup2 ' /proc/self/mountinfo || { echo none; exit; }; [ $(java -XX:+PrintFlagsFinal -version 2>/dev/null | sed -n 's/.* MaxHeapSize *= \\([0-9]*\\) .*/\\1/p') -lt 335544320 ] && echo below", "below"},
	} {
		r := b.run(t, user, "sh", "-c", "command -v "+c.program+" >/dev/null || { echo none; exit; }\n"+c.script)
		switch got := strings.TrimSpace(r.Stdout); got {
		case c.want:
		case "none":
			t.Logf("%s: %s was not tried: this sandbox has no such program, or no control groups of version 2", user, c.program)
		default:
			t.Errorf("%s: %s\n  %q, stderr %q, want %q", user, c.script, got, r.Stderr, c.want)
		}
	}
}

// endedByMemory wants a sandbox whose connection was cut, with err, to have ended for
// want of memory.
func (b *Sandbox) endedByMemory(t *testing.T, err error) {
	t.Helper()
	select {
	case <-b.Machine.Done():
		if c := b.Machine.Cause(); c != api.CauseMemory {
			t.Errorf("the sandbox ended by %q", c)
		}
	case <-time.After(patience.Of(30 * time.Second)):
		t.Errorf("the connection was cut, and the sandbox lives: %v", err)
	}
}
