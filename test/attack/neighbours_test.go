package attack

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// This file attacks what two sandboxes of one daemon could have in common: an inode that
// both of them see is a place to listen, to hold up, and to signal.

// hostNodes says that a sandbox has the host's own device nodes, since no ordinary user
// can make any.
func (w *world) hostNodes() bool { return w.isolation == "container" && os.Geteuid() != 0 }

// during starts a probe that continues in a sandbox, calls act once it is ready, ends it,
// and gives what it printed.
func (w *world) during(t *testing.T, id api.SandboxID, args []string, act func()) string {
	t.Helper()
	guest := w.guest(t, id)
	type answer struct {
		result
		err error
	}
	done := make(chan answer, 1)
	ctx := within(t)
	go func() {
		r, err := w.try(ctx, id, api.ExecRequest{Args: args})
		done <- answer{r, err}
	}()
	eventually(t, "the probe is ready", func() bool {
		_, err := guest.Stat(ctx, "", readyFile)
		return err == nil || len(done) > 0
	})
	act()
	check(t, "stop the probe", guest.WriteFile(ctx, "", stopFile, strings.NewReader("")))
	a := <-done
	if a.err != nil || a.exec.Exit.Code != 0 {
		t.Fatalf("%q: %v, %+v\n%s", args, a.err, a.exec.Exit, a.stderr)
	}
	for _, f := range []string{readyFile, stopFile} {
		check(t, "remove "+f, guest.Remove(ctx, "", f))
	}
	return a.stdout
}

// TestNeighboursAreNotSeen watches with inotify what other sandboxes use. The control is
// a program of the same sandbox.
func TestNeighboursAreNotSeen(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b := w.create(t, nil), w.create(t, nil)
		libc, err := filepath.Glob("/usr/lib/*/libc.so.6")
		if err != nil {
			t.Fatal(err)
		}
		paths := append([]string{"/", "/usr", "/usr/bin", "/usr/lib", "/usr/bin/env", "/dev", "/etc", "/etc/passwd", "/tmp/.."}, libc...)
		if w.hostNodes() {
			t.Log("an ordinary user's container has the host's device nodes: docs/security.md")
		} else {
			paths = append(paths, "/dev/null", "/dev/zero")
		}
		probe := append([]string{w.program(t, a.ID), roleProbe, "watch"}, paths...)
		const work = "env cat /etc/passwd </dev/zero >/dev/null; ls -lR /dev /etc >/dev/null 2>&1; head -c 1 /dev/zero; true"
		saw := w.during(t, a.ID, probe, func() {
			for _, user := range b.Identities {
				w.exec(t, b.ID, user, "sh", "-c", work)
			}
			// The host uses its own files too.
			for _, p := range slices.Concat(libc, []string{"/usr/bin/env", "/etc/passwd", "/dev/zero"}) {
				check(t, "read "+p, readSome(p))
			}
		})
		if saw != "" {
			t.Errorf("a sandbox sees what its neighbour or the host does:\n%s", saw)
		}
		saw = w.during(t, a.ID, probe, func() { w.exec(t, a.ID, "user", "sh", "-c", work) })
		for _, want := range []string{"/usr/bin/env", "/etc/passwd"} {
			if !strings.Contains(saw, "saw "+want+"\n") {
				t.Errorf("control: %s was used in the sandbox itself, and the watch saw\n%s", want, saw)
			}
		}
	})
}

// TestNeighboursLockNothing locks files that every sandbox has. The control is a second
// program of the same sandbox.
func TestNeighboursLockNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b := w.create(t, nil), w.create(t, nil)
		paths := []string{"/", "/usr", "/usr/bin", "/usr/bin/env", "/etc", "/etc/passwd", "/etc/hosts", "/dev", "/proc/version", "/proc/cmdline", "/proc/sys/kernel/random/boot_id"}
		if !w.hostNodes() {
			paths = append(paths, "/dev/null", "/dev/zero", "/dev/tty")
		}
		if w.isolation == "docker" || w.isolation == "microvm" { // which hide it behind the sandbox's own /dev/null
			paths = slices.DeleteFunc(paths, func(p string) bool { return p == "/proc/cmdline" })
		}
		prog, theirs := w.program(t, a.ID), w.program(t, b.ID)
		locks := func(prog, kind string) []string { return append([]string{prog, roleProbe, kind}, paths...) }
		held := w.during(t, a.ID, locks(prog, "hold locks"), func() {
			for _, user := range b.Identities {
				r := w.exec(t, b.ID, user, locks(theirs, "lock")...)
				if strings.Contains(r.stdout, "refused") || !strings.Contains(r.stdout, "got flock /usr/bin/env\n") {
					t.Errorf("%s is locked out by a neighbour:\n%s%s", user, r.stdout, r.stderr)
				}
			}
			f, err := os.Open("/usr/bin/env")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			check(t, "lock /usr/bin/env on the host", unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
			again := w.exec(t, a.ID, "user", locks(prog, "lock")...)
			if !strings.Contains(again.stdout, "refused flock /usr/bin/env\n") || !strings.Contains(again.stdout, "refused flock /etc/passwd\n") {
				t.Errorf("control: a second program of the sandbox is not locked out:\n%s", again.stdout)
			}
		})
		if !strings.Contains(held, "got flock /usr/bin/env\n") || strings.Contains(held, "refused") {
			t.Errorf("the locks to hold: %s", held)
		}
	})
}

// fileSystems lists the file systems that processes see, by their device numbers, with
// a place where each is mounted. Namespaces share one of the kernel's, and count each.
func fileSystems(t *testing.T, pids []int) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if err != nil {
			continue // ended
		}
		for line := range strings.Lines(string(b)) {
			// The fields: number, parent, device, root, place.
			f := strings.Fields(line)
			if len(f) < 5 {
				continue
			}
			key := f[2]
			if strings.Contains(line, " - nsfs ") {
				key += " " + f[3]
			}
			out[key] = f[4]
		}
	}
	return out
}

// workspaceLayer makes a layer for workspaces.
func (w *world) workspaceLayer(t *testing.T) layer.Digest {
	t.Helper()
	d := layer.Digest(fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(t.Name()))))
	_, err := w.layers.Put(t.Context(), d, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return layer.Tree{}, err
		}
		if err := os.WriteFile(filepath.Join(root, "file"), []byte("of the layer\n"), 0o644); err != nil {
			return layer.Tree{}, err
		}
		return layer.Tree{Root: root}, workspace.Own(root)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, "remove the layer", w.layers.Remove(d)) })
	return d
}

// createIn is create with a workspace, or without one where there are none.
func (w *world) createIn(t *testing.T, ws sandbox.Workspace) api.Sandbox {
	t.Helper()
	sb, err := w.Creator.CreateIn(within(t), api.CreateSandbox{Isolation: w.isolation}, ws)
	if api.KindOf(err) == api.KindUnsupported {
		t.Logf("without a workspace: %v", err)
		return w.create(t, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.kill(t, sb.ID) })
	return sb
}

// TestNeighboursShareNoFileSystem holds the whole class: no file system that a process
// of a sandbox sees is seen by another sandbox or by the host.
func TestNeighboursShareNoFileSystem(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.notByEngine(t, "what is of one sandbox on this machine's disk is mounted from there")
		if w.isolation == "microvm" || atService(w.isolation) {
			t.Skipf("%s has %s by other means: no process of the sandbox is one of this kernel's, or of this host's, whose mounts could be compared", w.isolation, api.CapIsolated)
		}
		// Workspaces over one layer: one that ends with its sandbox, one that stays.
		ws := sandbox.Workspace{Layers: []layer.Digest{w.workspaceLayer(t)}}
		a := w.createIn(t, ws)
		upper, err := w.workspaces.Create(t.Context(), "", ws.Layers)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { check(t, "remove the workspace", w.workspaces.Remove(context.Background(), upper, "")) })
		ws.Upper = upper
		b := w.createIn(t, ws)
		for _, sb := range []api.Sandbox{a, b} {
			w.alive(t, sb.ID)
		}
		host := fileSystems(t, []int{os.Getpid()})
		mine, theirs := fileSystems(t, below(w.keeper(t, a.ID))), fileSystems(t, below(w.keeper(t, b.ID)))
		if len(mine) < 4 || len(theirs) < 4 || len(host) < 2 {
			t.Fatalf("the look saw nothing: %v, %v, %v", mine, theirs, host)
		}
		for dev, place := range mine {
			if os.Geteuid() != 0 && strings.HasPrefix(place, "/dev/") {
				continue // the host's nodes, which code on a kernel of its own does not reach
			}
			if other, ok := theirs[dev]; ok {
				t.Errorf("the file system at %s of one sandbox is at %s of the other", place, other)
			}
			if other, ok := host[dev]; ok {
				t.Errorf("the file system at %s of a sandbox is at %s of the host", place, other)
			}
		}
		// The control: processes of one sandbox have their file systems in common.
		again := fileSystems(t, []int{w.keeper(t, a.ID)})
		for dev := range again {
			if _, ok := mine[dev]; !ok {
				t.Errorf("control: %s of the same sandbox is %s", dev, slices.Sorted(maps.Values(mine)))
			}
		}
	})
}

// TestBootID wants an id of the boot for each sandbox, and random UUIDs.
func TestBootID(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.notByEngine(t, "an engine mounts nothing over the boot id")
		const random = "/proc/sys/kernel/random/"
		uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		b, err := os.ReadFile(random + "boot_id")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{strings.TrimSpace(string(b)): "the host"}
		for range 2 {
			sb := w.create(t, nil)
			var own string
			for _, user := range sb.Identities {
				ids := strings.Fields(w.exec(t, sb.ID, user, "cat", random+"boot_id", random+"boot_id", random+"uuid", random+"uuid").stdout)
				if len(ids) != 4 {
					t.Fatalf("%s reads %q", user, ids)
				}
				for _, id := range ids {
					if !uuid.MatchString(id) {
						t.Errorf("%s: %q is no random UUID", user, id)
					}
				}
				if ids[0] != ids[1] || own != "" && ids[0] != own {
					t.Errorf("%s: the id of the boot changes: %q, %q", user, own, ids)
				}
				if own = ids[0]; ids[2] == ids[3] || slices.Contains(ids[2:], own) {
					t.Errorf("%s: the UUIDs are not random: %q", user, ids)
				}
				if r := w.exec(t, sb.ID, user, "sh", "-c", "echo x >"+random+"boot_id"); r.exec.Exit.Code == 0 {
					t.Errorf("%s writes the id of the boot", user)
				}
			}
			if whose := seen[own]; whose != "" {
				t.Errorf("%s has the boot id of %s", sb.ID, whose)
			}
			seen[own] = string(sb.ID)
		}
	})
}

// TestPathOfRoot plants a program where user can write, and wants root inside not to
// run it. The control is user, who does.
func TestPathOfRoot(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.needs(t, api.CapRootIdentity)
		sb := w.create(t, nil)
		const plant = `mkdir -p ~/.local/bin && printf '#!/bin/sh\necho planted\n' >~/.local/bin/id && chmod 755 ~/.local/bin/id`
		if r := w.exec(t, sb.ID, "user", "sh", "-c", plant); r.exec.Exit.Code != 0 {
			t.Fatalf("plant a program: %+v", r)
		}
		for _, how := range [][]string{{"id", "-u"}, {"sh", "-c", "id -u"}, {"sh", "-lc", "id -u"}, {"bash", "-lc", "id -u"}} {
			if r := w.exec(t, sb.ID, "user", how...); r.stdout != "planted\n" {
				t.Errorf("control: %q as user says %q", how, r.stdout)
			}
			if r := w.exec(t, sb.ID, "root", how...); r.stdout != "0\n" {
				t.Errorf("%q as root says %q", how, r.stdout)
			}
		}
		for _, shell := range []string{"-c", "-lc"} {
			path := strings.TrimSpace(w.exec(t, sb.ID, "root", "sh", shell, "echo $PATH").stdout)
			if !strings.Contains(path, "/usr/bin") {
				t.Errorf("root's PATH is %q", path)
			}
			for dir := range strings.SplitSeq(path, ":") {
				if r := w.exec(t, sb.ID, "user", "sh", "-c", `mkdir -p "$0" && touch "$0/planted"`, dir); r.exec.Exit.Code == 0 {
					t.Errorf("user can write to %q of root's PATH", dir)
				}
			}
		}
	})
}
