package seccomp

import (
	_ "embed"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// usedByToolchains is derived: test/conformance runs the toolchains under a
// tracer and writes it.
//
//go:embed testdata/toolchains.txt
var usedByToolchains string

// kept are allowed calls that none of those toolchains was seen to use, with the
// reason for which they stay.
var kept = []struct {
	why   string
	names []string
}{
	{"an older or newer form of a call that is used, with the same code behind it: another C library, another language or the next release uses it",
		strings.Fields(`alarm chown epoll_create epoll_pwait2 eventfd execveat faccessat fchmod fchmodat2 fchownat fork futimesat getdents
			getitimer getrlimit gettimeofday lchown lstat mknod open openat2 pipe preadv preadv2 pselect6 pwritev pwritev2 readv recvmmsg select
			sendfile setregid setreuid setrlimit signalfd signalfd4 splice time timer_delete timer_getoverrun timer_gettime timerfd_create
			timerfd_gettime timerfd_settime times tkill truncate utime utimes`)},
	{"ends a thread or a process: it never returns, so a tracer does not count it", strings.Fields("exit exit_group")},
	{"asks a process about itself", strings.Fields("getcpu getpgid getsid personality rt_sigpending")},
	{"waits for or sends a signal with a value, as sigqueue and sigwait do; not to the guest", strings.Fields("rt_sigqueueinfo rt_sigtimedwait rt_tgsigqueueinfo")},
	{"attributes of files, which archives and copies keep", strings.Fields("fremovexattr getxattr lgetxattr listxattr llistxattr lremovexattr lsetxattr removexattr setxattr")},
	{"memory that must not be swapped, or must be: keys, heaps of virtual machines, databases; bounded by a resource limit", strings.Fields("mincore mlock mlock2 mlockall munlock munlockall")},
	{"what a database does so that its files are safe", strings.Fields("msync readahead sync sync_file_range syncfs")},
	{"memory and semaphores that processes share, in the sandbox's own namespace: PostgreSQL, MIT-SHM", strings.Fields("semctl semget semop semtimedop shmat shmctl shmdt shmget")},
	{"priorities of threads, which virtual machines and sound set; not the guest's", strings.Fields(`sched_get_priority_max sched_get_priority_min sched_getattr
			sched_rr_get_interval sched_setattr sched_setparam sched_setscheduler`)},
	{"lets a program confine itself further", strings.Fields("landlock_add_rule landlock_restrict_self mseal pkey_free pkey_mprotect seccomp")},
	{"control flow that the processor guards: C libraries built for it need the call once the guard is on", strings.Fields("map_shadow_stack")},
	{"order among threads without locks: .NET, the JVM, RCU libraries", strings.Fields("membarrier")},
	{"the guest works on files as somebody and goes back", strings.Fields("setfsgid setfsuid")},
}

// TestEveryCallIsWanted holds the policy to what programs use: an allowed call
// was seen in use, or there is a reason for it.
func TestEveryCallIsWanted(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("the list is of amd64; this is %s", runtime.GOARCH)
	}
	p, err := Default(Options{GuestUID: -1, GuestGID: -1})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := p.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for line := range strings.Lines(usedByToolchains) {
		call, users, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		used[call] = true
		if users == "" || !slices.Contains(allowed, call) {
			t.Errorf("%s is used by %q, but the policy refuses it", call, users)
		}
	}
	reason := map[string]bool{}
	for _, k := range kept {
		for _, name := range k.names {
			switch {
			case reason[name]:
				t.Errorf("%s is kept twice", name)
			case used[name]:
				t.Errorf("%s is kept though unused, but it is used", name)
			case !slices.Contains(allowed, name):
				t.Errorf("%s is kept, but the policy refuses it", name)
			}
			reason[name] = true
		}
	}
	for _, name := range allowed {
		if !used[name] && !reason[name] {
			t.Errorf("%s is allowed, no toolchain uses it and nobody says why it stays: remove it, or keep it with a reason", name)
		}
	}
	t.Logf("%d allowed: %d used by toolchains, %d kept for a reason", len(allowed), len(used), len(reason))
}

// TestDocumentedCalls holds the table in docs/security-claims.md to the policy: each
// allowed call is in one group there, and nothing else is.
func TestDocumentedCalls(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("the table is of amd64; this is %s", runtime.GOARCH)
	}
	b, err := os.ReadFile("../../../../docs/security-claims.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "<!-- surface of calls -->\n")
	table, _, end := strings.Cut(rest, "<!-- end -->")
	if !ok || !end {
		t.Fatal("docs/security-claims.md has no table of calls")
	}
	p, err := Default(Options{GuestUID: -1, GuestGID: -1})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := p.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.TrimSpace(cells[3]) == "" {
			t.Fatalf("a row without three cells: %s", line)
		}
		for i, name := range strings.Split(cells[2], "`") {
			if i%2 == 0 {
				continue
			}
			if said[name] || !slices.Contains(allowed, name) {
				t.Errorf("docs/security-claims.md lists %s, which is refused, or lists it twice", name)
			}
			said[name] = true
		}
	}
	for _, name := range allowed {
		if !said[name] {
			t.Errorf("%s is allowed and not in the table of docs/security-claims.md", name)
		}
	}
}
