package story

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/admin"
	"hortus.dev/test/tier"
)

// ordinary returns how to become an ordinary user: nothing for one who is.
func ordinary(t *testing.T, g *garden) (prefix []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	// The user must reach the binary and own the data.
	base := filepath.Dir(g.dir)
	copied := filepath.Join(base, "hortus")
	// Another process writes it: a file that this one has open for writing is busy for as
	// long as a process that is being forked meanwhile holds the descriptor.
	err := exec.Command("cp", binary, copied).Run()
	if err == nil {
		err = os.Chown(base, 1000, 1000)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.env = append(g.env, "PATH="+base+":"+os.Getenv("PATH"))
	return []string{"setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"}
}

// outside runs a program that stands between this test and hortus.
func (g *garden) outside(args ...string) result {
	g.t.Helper()
	return g.outsideFor(patience, args...)
}

// outsideFor is outside with a bound of its own.
func (g *garden) outsideFor(bound time.Duration, args ...string) result {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), bound)
	defer cancel()
	if args[0] == "hortus" {
		args[0] = binary // the path of g's environment is not looked at here
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.WaitDelay = g.env, 5*time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return result{stdout.String(), stderr.String(), exitOf(g.t, err)}
}

// prepareFailed is what the scripts below exit with when this machine cannot even
// pretend.
const prepareFailed = 99

// TestHostsThatCannot pretends to be hosts that isolate nothing: `run` ends with 4
// and one message with the cause and the fix, before a model is asked, and doctor
// says the same.
func TestHostsThatCannot(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	const (
		forbid = `echo 0 >/proc/sys/user/max_user_namespaces || exit 99`
		// A part of /proc is covered, as container runtimes do it; the kernel then
		// refuses a fresh one in a user namespace below.
		mask = `mount -t proc proc /proc && mount -t tmpfs none /proc/tty || exit 99`
		drop = `setpriv --ambient-caps=-all --inh-caps=-all `
		// The kernel refuses user namespaces to what runs in a chroot with the
		// same error as AppArmor does, and a file stands where Ubuntu's kernels
		// have the setting. What is left out is AppArmor itself.
		apparmor = `mount --rbind / /mnt && mount -t tmpfs none /mnt/proc/sys/kernel || exit 99
for f in cap_last_cap ostype osrelease hostname pid_max threads-max overflowuid overflowgid ngroups_max; do cat /proc/sys/kernel/$f >/mnt/proc/sys/kernel/$f || exit 99; done
mkdir /mnt/proc/sys/kernel/random && cat /proc/sys/kernel/random/boot_id >/mnt/proc/sys/kernel/random/boot_id || exit 99
echo 1 >/mnt/proc/sys/kernel/apparmor_restrict_unprivileged_userns || exit 99`
		confined = `chroot /mnt ` + drop
	)
	user := []string{"unshare", "-U", "--map-user=1000", "--map-group=1000", "--keep-caps"}
	root := []string{"unshare", "-Ur"}
	for _, c := range []struct {
		name       string
		unshare    []string
		prepare    string
		drop       string
		cause, fix string
		soak       bool
	}{
		{"namespaces forbidden", user, forbid, drop, "user namespaces are disabled", "user.max_user_namespaces", false},
		{"namespaces forbidden to root in a container", root, forbid, "", "user namespaces are disabled", "user.max_user_namespaces", true},
		{"container without privileges", append(slices.Clone(user), "-m", "-p", "-f"), mask, drop, "mount /proc: operation not permitted", "systempaths=unconfined", false},
		{"container without privileges, as its root", append(slices.Clone(root), "-m", "-p", "-f"), mask, "", "mount /proc: operation not permitted", "systempaths=unconfined", true},
		{"AppArmor", append(slices.Clone(user), "-m"), apparmor, confined, "AppArmor allows only listed programs", "kernel.apparmor_restrict_unprivileged_userns", false},
		{"AppArmor, as root of a container", append(slices.Clone(root), "-m"), apparmor, confined, "AppArmor allows only listed programs", "kernel.apparmor_restrict_unprivileged_userns", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.soak {
				tier.Soak(t)
			}
			g := newEmptyGarden(t)
			become := ordinary(t, g)
			run := func(command string) result {
				args := append(slices.Clone(become), c.unshare...)
				return g.outside(append(args, "sh", "-c", c.prepare+"\n"+c.drop+command+"\ncode=$?\n"+c.drop+"hortus daemon stop --force 2>/dev/null\nexit $code")...)
			}
			r := run("hortus run 'print the first 5 primes'")
			if r.code == prepareFailed {
				t.Skipf("this machine cannot pretend: %s", r.stderr)
			}
			if r.code != 4 || r.stdout != "" {
				t.Fatalf("run: %s", r)
			}
			lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
			if len(lines) != 2 || !strings.HasPrefix(lines[0], "hortus: ") || !strings.Contains(lines[0], c.cause) ||
				!strings.HasPrefix(lines[1], "  next: ") || !strings.Contains(lines[1], c.fix) {
				t.Errorf("not one message with %q and %q: %s", c.cause, c.fix, r)
			}
			r = run("hortus doctor --json")
			if r.code != 4 {
				t.Errorf("doctor: %s", r)
			}
			d := decode[admin.Doctor](t, r.stdout)
			if d.Auto != "" || !strings.Contains(d.AutoWhy, c.cause) || !strings.Contains(d.AutoWhy, c.fix) {
				t.Errorf("doctor chooses %q: %s", d.Auto, d.AutoWhy)
			}
			if r = run("hortus sandbox run -- true"); r.code != 125 && r.code != 4 {
				t.Errorf("sandbox run: %s", r)
			}
		})
	}
}

// TestRootInARootlessContainer is root, with a single id of the host's.
func TestRootInARootlessContainer(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newEmptyGarden(t)
	r := g.outside(append(ordinary(t, g), "unshare", "-Ur", "sh", "-c",
		`test $(id -u) = 0 || exit 99; hortus run --quiet 'print the first 5 primes'; code=$?; hortus daemon stop --force 2>/dev/null; exit $code`)...)
	if r.code == prepareFailed {
		t.Skipf("this machine cannot pretend: %s", r.stderr)
	}
	if r.code != 0 || !strings.Contains(r.stdout, "2, 3, 5, 7, 11") {
		t.Errorf("run: %s", r)
	}
}

// TestNoPython hides every python3 of this machine, in a mount namespace of its
// own where /usr is a copy on write.
func TestNoPython(t *testing.T) {
	tier.Soak(t) // internal/agent has programs without a toolchain
	tier.AnyUser(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("hiding a program of this machine needs root")
	}
	g := newEmptyGarden(t)
	g.light()
	found := decode[admin.Doctor](t, g.must("doctor", "--json"))
	hide := []string{}
	for _, tool := range found.Template.Tools {
		if tool.Name == "python3" && tool.Present && !strings.HasPrefix(tool.Path, "/usr/") {
			hide = append(hide, "mount -t tmpfs none "+filepath.Dir(filepath.Dir(tool.Path))+" || exit 99")
		}
	}
	g.must("daemon", "stop")
	g.gone()
	base := filepath.Dir(g.dir)
	prepare := `mkdir -p ` + base + `/o && mount -t tmpfs none ` + base + `/o && mkdir ` + base + `/o/u ` + base + `/o/w &&
mount -t overlay overlay -o lowerdir=/usr,upperdir=` + base + `/o/u,workdir=` + base + `/o/w /usr || exit 99
rm -f /usr/bin/python3* /usr/local/bin/python3* || exit 99
` + strings.Join(hide, "\n") + "\n"
	run := func(command string) result {
		return g.outside("unshare", "-m", "sh", "-c", prepare+command+"\ncode=$?\nhortus daemon stop --force 2>/dev/null\nexit $code")
	}
	r := run("hortus run 'print the first 5 primes'")
	if r.code == prepareFailed {
		t.Skipf("this machine cannot pretend: %s", r.stderr)
	}
	if r.code != 1 || r.stdout != "" {
		t.Errorf("run without python3: %s", r)
	}
	// One message has the cause and the fix, and it comes before anything is
	// written or run.
	for _, once := range []string{"python3 is not installed", "apt install python3", "Available languages: JavaScript"} {
		if n := strings.Count(r.stderr, once); n != 1 {
			t.Errorf("%q is said %d times: %s", once, n, r)
		}
	}
	for _, never := range []string{"coder", "executor", "debugger", "attempt"} {
		if strings.Contains(r.stderr, never) {
			t.Errorf("%q is said: %s", never, r)
		}
	}
	if r = run("hortus doctor --json"); r.code == 0 {
		for _, tool := range decode[admin.Doctor](t, r.stdout).Template.Tools {
			if tool.Name == "python3" && tool.Present {
				t.Errorf("doctor sees a python3 at %s", tool.Path)
			}
		}
	}
	// The other language is unharmed.
	if r = run("hortus run --quiet 'print the first 5 primes in JavaScript'"); r.code != 0 {
		t.Errorf("run in JavaScript: %s", r)
	}
}

// TestDataDirectories: long, closed, somebody else's, of a newer Hortus.
func TestDataDirectories(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	t.Run("long", func(t *testing.T) {
		g := newEmptyGarden(t)
		g.light()
		g.dir = filepath.Join(filepath.Dir(g.dir), strings.Repeat("long-", 30), "d")
		if len(g.dir) < 150 {
			t.Fatal(len(g.dir))
		}
		g.env = append(g.env, "HORTUS_DATA_DIR="+g.dir)
		if out := g.must("run", "--quiet", "print the first 5 primes"); !strings.Contains(out, "11") {
			t.Error(out)
		}
		if r := g.run("sandbox", "run", "--", "sh", "-c", "exit 3"); r.code != 3 {
			t.Error(r)
		}
	})
	t.Run("cannot be made", func(t *testing.T) {
		g := newEmptyGarden(t)
		g.light()
		file := filepath.Join(filepath.Dir(g.dir), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r := g.run("--data-dir", filepath.Join(file, "d"), "task", "ls")
		if r.code == 0 || !strings.Contains(r.stderr, "cannot create the data directory") || !strings.Contains(r.stderr, "--data-dir DIR") {
			t.Error(r)
		}
	})
	t.Run("not writable", func(t *testing.T) {
		g := newEmptyGarden(t)
		g.light()
		become := ordinary(t, g)
		closed := filepath.Join(filepath.Dir(g.dir), "closed")
		if err := os.Mkdir(closed, 0o555); err != nil {
			t.Fatal(err)
		}
		r := g.outside(append(become, "hortus", "--data-dir", filepath.Join(closed, "d"), "task", "ls")...)
		if r.code == 0 || !strings.Contains(r.stderr, "permission denied") || !strings.Contains(r.stderr, "  next: ") {
			t.Error(r)
		}
	})
	t.Run("somebody else's", func(t *testing.T) {
		g := newEmptyGarden(t)
		g.light()
		become := ordinary(t, g)
		for _, dir := range []string{"/", "/etc", "/proc"} {
			st, err := os.Stat(dir)
			if err != nil || !st.IsDir() {
				continue
			}
			r := g.outside(append(become, "hortus", "--data-dir", dir, "task", "ls")...)
			if r.code == 0 || !strings.Contains(r.stderr, "belongs to user 0") || !strings.Contains(r.stderr, "  next: ") {
				t.Errorf("%s: %s", dir, r)
			}
		}
	})
	t.Run("squatted", func(t *testing.T) {
		// Whatever lies at the socket's place is a dead daemon's, and is replaced.
		g := newEmptyGarden(t)
		g.light()
		if err := os.MkdirAll(g.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"file", "dangling link", "full directory"} {
			sock := filepath.Join(g.dir, "hortus.sock")
			var err error
			switch c {
			case "file":
				err = os.WriteFile(sock, []byte("x"), 0o600)
			case "dangling link":
				err = os.Symlink("/nowhere", sock)
			case "full directory":
				err = os.MkdirAll(filepath.Join(sock, "x"), 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := g.run("task", "ls")
			if c == "full directory" {
				if r.code != 1 || !strings.Contains(r.stderr, "listen on") {
					t.Errorf("%s: %s", c, r)
				}
				if err := os.RemoveAll(sock); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if r.code != 0 {
				t.Errorf("%s: %s", c, r)
			}
			g.end()
			if err := os.Remove(sock); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("of a newer version", func(t *testing.T) {
		g := newEmptyGarden(t)
		g.light()
		g.must("task", "ls")
		g.end()
		// SQLite keeps the version in the header of the file. The sandbox's own python3 writes
		// a later one, since sqlite's own command is not on every machine.
		script := `import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("pragma user_version = 999999")
db.commit()`
		if r := g.outside("python3", "-c", script, filepath.Join(g.dir, "hortus.db")); r.code != 0 {
			t.Skipf("python3 cannot write the database here: %s", r)
		}
		r := g.run("task", "ls")
		if r.code != 1 || !strings.Contains(r.stderr, "newer") || !strings.Contains(r.stderr, "  next: ") {
			t.Error(r)
		}
		if len(strings.Split(strings.TrimSpace(r.stderr), "\n")) != 2 {
			t.Errorf("not one message: %s", r)
		}
	})
}

// TestDaemonLeavesWhenIdle waits for the end of a daemon that nobody needs.
func TestDaemonLeavesWhenIdle(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newEmptyGarden(t)
	g.light()
	g.must("run", "--quiet", "print the first 5 primes")
	if daemonOf(g.dir) == 0 {
		t.Error("the daemon left at once: two commands in a row would each start one")
	}
	until(t, "the daemon leaves by itself", func() string {
		if pid := daemonOf(g.dir); pid != 0 {
			return "daemon " + strconv.Itoa(pid) + " is there"
		}
		return ""
	})
	if _, err := g.client().Info(t.Context()); err == nil {
		t.Error("the socket still answers")
	}
	if left := g.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	// And the next command starts another, which remembers.
	if tasks := decode[[]json.RawMessage](t, g.must("task", "ls", "--json")); len(tasks) != 1 {
		t.Errorf("%d tasks are remembered", len(tasks))
	}
}
