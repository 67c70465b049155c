package jail_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer/mount"
)

// sharesLayers skips where forks copy files.
func sharesLayers(t testing.TB, e *env) {
	t.Helper()
	saves(t, e)
	if !isRoot() {
		t.Skip("only root can mount layers")
	}
	if _, err := mount.Find(t.Context(), t.TempDir()); err != nil {
		t.Skipf("this host cannot mount images: %v", err)
	}
}

// layersOf are those of an image or a sandbox.
func layersOf(t testing.TB, dir string) image.Layers {
	t.Helper()
	l, err := image.ReadLayers(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fork saves a machine as a fork does, on a number of layers.
func fork(t testing.TB, m sandbox.Machine, layers int) string {
	t.Helper()
	dir := save(t, m, sandbox.SaveOptions{Fork: true})
	if l := layersOf(t, dir); len(l) != layers {
		t.Fatalf("the fork has %d layers, not %d", len(l), layers)
	}
	return dir
}

// lists describes everything that can be written in a sandbox.
const lists = `cd / && find . -xdev \( -path ./proc -o -path ./dev -o -path ./usr -o -path ./run -o -path ./sys \) -prune -o \( -type d -printf '%P d %m %U:%G %T@\n' -o -printf '%P %y %m %U:%G %s %T@ %n %l\n' \) | LC_ALL=C sort
find . -xdev \( -path ./proc -o -path ./dev -o -path ./usr -o -path ./run -o -path ./sys \) -prune -o -type f -exec cksum {} + | LC_ALL=C sort -k3`

func listed(t testing.TB, m sandbox.Machine) string { t.Helper(); return sh(t, m, "root", lists) }

// entries is what listed describes, without the numbers of names: a file of a layer keeps its number when one of the names
// is removed above the layer.
func entries(t testing.TB, m sandbox.Machine) string {
	t.Helper()
	return sh(t, m, "root", strings.Replace(lists, "%T@ %n %l", "%T@ %l", 1))
}

// differs describes the first difference of two lists.
func differs(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d: %q, not %q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(a), len(b))
}

// many writes 300 files.
const many = "mkdir -p /tmp/many && for i in $(seq 300); do echo $i > /tmp/many/$i; done"

// everything makes what can be in an upper layer.
const everything = `umask 022; mkdir -p /srv/new/d /srv/shut && echo one > /srv/new/one && ln /srv/new/one /srv/new/d/twin && ln -s /etc/passwd /srv/new/link && mkfifo /srv/new/pipe
chmod 4755 /srv/new/one; chown 1000:5 /srv/new/d; chmod 1770 /srv/new/d; touch -d @1000000000 /srv/new/one /srv/new/d; truncate -s 1M /srv/new/hole; printf 'a\nb' > '/srv/new/a
b'; : > /srv/shut/secret; chmod 0 /srv/shut/secret /srv/shut
rm /srv/tree/deep/file && rmdir /srv/tree/deep && mkdir /srv/tree/deep && echo new > /srv/tree/deep/other; rm /test-binary; echo more >> /etc/passwd; chmod 711 /`

// TestForksShareLayers: what a sandbox wrote becomes a layer of its children and of theirs, which see it as the
// sandbox did. There are at most as many layers as that, and none in what is not a fork.
func TestForksShareLayers(t *testing.T) {
	e := newEnv(t)
	sharesLayers(t, e)
	m, _ := e.start(t)
	sh(t, m, "root", many+"\n"+everything)
	want := listed(t, m)
	dir := fork(t, m, 1)
	one, two := e.restored(t, dir), e.restored(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	kill(t, m)
	for _, c := range []sandbox.Machine{one, two} {
		if got := listed(t, c); got != want {
			t.Fatal("a child has ", differs(got, want))
		}
	}
	sh(t, one, "root", "echo mine > /srv/new/one; rm -r /tmp/many")
	if got := listed(t, two); got != want {
		t.Error("after a write of its sibling a child has ", differs(got, want))
	}
	// What is little is copied, and stays above the layer.
	want = listed(t, one)
	if got := listed(t, e.restored(t, fork(t, one, 1))); got != want {
		t.Error("a grandchild has ", differs(got, want))
	}
	kill(t, m)
	// Generations, each of which removes and hides something of those before.
	c := two
	for n := 2; n <= image.MaxLayers+2; n++ {
		sh(t, c, "root", fmt.Sprintf(`d=/srv/g%[1]d; mkdir $d && for i in $(seq 300); do echo %[1]d > $d/$i; done
rm -f /srv/g%[2]d/7 /srv/g%[3]d/8; [ ! -d /srv/g%[3]d ] || { rm -r /srv/g%[3]d && mkdir /srv/g%[3]d && echo again > /srv/g%[3]d/9; }
rm -r /srv/new/d && mkdir /srv/new/d && echo %[1]d > /srv/new/d/n; rm -f /srv/tree/deep/other; echo %[1]d > /srv/tree/deep/o%[1]d; rm -f /tmp/many/%[1]d; [ %[1]d != 5 ] || { rm -r /tmp/many; echo file > /tmp/many; }
[ %[1]d != 7 ] || { rm /tmp/many; mkdir /tmp/many; }`, n, n-1, n-2))
		want := entries(t, c)
		layers := n
		if n > image.MaxLayers {
			layers = n - image.MaxLayers
		}
		child := e.restored(t, fork(t, c, layers))
		if got := entries(t, child); got != want {
			t.Fatalf("generation %d has %s", n, differs(got, want))
		}
		dir := save(t, child, sandbox.SaveOptions{})
		if l := layersOf(t, dir); len(l) != 0 {
			t.Errorf("a snapshot is on %d layers", len(l))
		}
		restored := e.restored(t, dir)
		if got := entries(t, restored); got != want {
			t.Fatalf("a snapshot of generation %d has %s", n, differs(got, want))
		}
		kill(t, restored)
		kill(t, c)
		c = child
	}
	kill(t, c)
	kill(t, one)
}

// layerFiles are the layers of the running sandboxes, by their paths, with how many names each has.
func layerFiles(t testing.TB, e *env) map[string]uint64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(e.dir, "*.bases", "layer-*.img"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, p := range paths {
		var st syscall.Stat_t
		if err := syscall.Stat(p, &st); err != nil {
			t.Fatal(err)
		}
		out[p] = uint64(st.Nlink)
	}
	return out
}

// TestLayersLiveAsLongAsTheirSandboxes: a layer has a name for each sandbox that uses it, and goes with the last one. A
// daemon that takes sandboxes over finds their layers.
func TestLayersLiveAsLongAsTheirSandboxes(t *testing.T) {
	e := newEnv(t)
	sharesLayers(t, e)
	m, _ := e.start(t)
	sh(t, m, "root", many)
	want := listed(t, m)
	dir := fork(t, m, 1)
	spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "garden"}
	p, err := e.Restore(t.Context(), spec, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Claim(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	other := e.restored(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	// The parent keeps it for its next fork.
	if files := layerFiles(t, e); len(files) != 3 {
		t.Errorf("a parent and two children have the layers %v", files)
	} else {
		for p, n := range files {
			if n != 3 {
				t.Errorf("%s has %d names", p, n)
			}
		}
	}
	if err := p.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	// One whose layers are not there is not taken over: its snapshots would lack them.
	list := filepath.Join(e.dir, string(spec.ID)+".bases", "layers.json")
	if err := os.Rename(list, list+".away"); err != nil {
		t.Fatal(err)
	}
	next := e.backend(t)
	if _, err := next.Adopt(t.Context(), spec.ID); api.KindOf(err) != api.KindConflict {
		t.Errorf("without its layers: %v", err)
	}
	if err := os.Rename(list+".away", list); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Close() })
	a, err := next.Adopt(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, a.Machine) })
	for _, o := range []sandbox.SaveOptions{{Fork: true}, {}} {
		c := e.restored(t, save(t, a.Machine, o))
		if got := listed(t, c); got != want {
			t.Errorf("a child of one that was taken over has %s", differs(got, want))
		}
		kill(t, c)
	}
	// An image whose layers are not there starts nothing, and leaves nothing.
	bad := fork(t, a.Machine, 1)
	if err := os.Remove(filepath.Join(bad, image.LayerFile(layersOf(t, bad)[0].Name))); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Restore(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "garden"}, bad); err == nil {
		t.Error("a sandbox was started without its layer")
	}
	kill(t, other)
	kill(t, a.Machine)
	kill(t, m)
	if left, err := filepath.Glob(filepath.Join(e.dir, "*.bases")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// sum is the digest of the layer of a sandbox's.
func sum(t testing.TB, e *env) (sums string) {
	t.Helper()
	for p := range layerFiles(t, e) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		s := sha256.Sum256(b)
		return hex.EncodeToString(s[:])
	}
	t.Fatal("there is no layer")
	return ""
}

// TestChildrenCannotChangeLayers: whatever a child does to a file of a layer, it does to a copy of its own: it sees it
// itself, which is the control, and neither its sibling nor the layer does.
func TestChildrenCannotChangeLayers(t *testing.T) {
	e := newEnv(t)
	sharesLayers(t, e)
	m, _ := e.start(t)
	sh(t, m, "root", many+"; echo content > /tmp/many/f; chmod 666 /tmp/many/f; mkdir /tmp/many/d; echo in > /tmp/many/d/e")
	dir := fork(t, m, 1)
	kill(t, m)
	attacker, sibling := e.restored(t, dir), e.restored(t, dir)
	const look = `cd /tmp/many; stat -c '%n %a %u %s %Y %h' . f d d/e 1; cat f d/e 1; ls; getfattr -d f 2>/dev/null || :`
	want, was := sh(t, sibling, "root", look), sum(t, e)
	for name, script := range map[string]string{
		"write":                "echo changed > f",
		"append":               "echo more >> f",
		"truncate":             "truncate -s 0 f",
		"enlarge":              "truncate -s 100 f",
		"chmod":                "chmod 4700 f",
		"chown":                "chown 1000:1000 f",
		"touch":                "touch -d @5 f",
		"link":                 "ln f g && echo changed > g",
		"xattr":                "python3 -c 'import os; os.setxattr(\"f\", \"user.x\", b\"y\")' && chmod 600 f",
		"rename":               "mv f g",
		"over":                 "echo other > o && mv o f",
		"remove":               "rm f",
		"directory":            "rm -r d && mkdir d",
		"chmod of a directory": "chmod 700 d; chmod 711 .",
		"map":                  `python3 -c 'import mmap, os; m = mmap.mmap(os.open("f", os.O_RDWR), 7); m[0:2] = b"XY"; m.close()'`,
		"punch":                "fallocate -p -o 0 -l 4 f",
		"as the user":          "echo user > f",
	} {
		t.Run(name, func(t *testing.T) {
			who := "root"
			if strings.HasSuffix(name, "user") {
				who = "user"
			}
			c := e.restored(t, dir)
			sh(t, c, who, "cd /tmp/many && "+script)
			if got := sh(t, c, "root", look); got == want {
				t.Error("it had no effect in the child itself")
			}
			if got := sh(t, sibling, "root", look); got != want {
				t.Errorf("its sibling has\n%s\nnot\n%s", got, want)
			}
			if sum(t, e) != was {
				t.Error("the layer has changed")
			}
			kill(t, c)
		})
	}
	// The mount itself cannot be reached, nor made writable.
	sh(t, attacker, "root", `! mount -o remount,rw / 2>/dev/null; ! grep -q erofs /proc/self/mountinfo`)
}

// TestForksOfFilesCount: a child has what its layers take of its disk, as a copy would have, and says what of it is
// shared. What takes more than half of the disk is copied, and what is little as well.
func TestForksOfFilesCount(t *testing.T) {
	e := newEnv(t)
	sharesLayers(t, e)
	m, _ := e.start(t)
	if l := layersOf(t, save(t, m, sandbox.SaveOptions{Fork: true})); len(l) != 0 {
		t.Errorf("a sandbox that wrote nothing has the layers %v", l)
	}
	sh(t, m, "root", "head -c 20M /dev/urandom > /srv/big")
	if l := layersOf(t, save(t, m, sandbox.SaveOptions{})); len(l) != 0 {
		t.Errorf("a snapshot has the layers %v", l)
	}
	if l := layersOf(t, save(t, m, sandbox.SaveOptions{Fork: true, CopyMemory: true})); len(l) != 0 {
		t.Errorf("a copy has the layers %v", l)
	}
	c := e.restored(t, fork(t, m, 1))
	s, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.DiskSharedBytes < 20<<20 || s.DiskSharedBytes > 21<<20 || s.DiskUsedBytes < s.DiskSharedBytes || s.DiskUsedBytes > 22<<20 ||
		s.DiskTotalBytes < 63<<20 || s.DiskTotalBytes > 64<<20 {
		t.Errorf("%+v", s)
	}
	// It has 44 MB left, with which it can write the file again, and no more.
	sh(t, c, "root", "head -c 20M /dev/zero > /srv/big; head -c 20M /dev/zero > /srv/more; ! head -c 10M /dev/zero > /srv/toomuch 2>/dev/null; rm /srv/toomuch /srv/more")
	want := listed(t, c)
	// Together they are more than half now.
	copied := e.restored(t, fork(t, c, 0))
	if got := listed(t, copied); got != want {
		t.Errorf("the copy has %s", differs(got, want))
	}
	if s, err := copied.Stats(t.Context()); err != nil || s.DiskSharedBytes != 0 || s.DiskUsedBytes > 22<<20 {
		t.Errorf("the copy has %+v, %v", s, err)
	}
	// Holes take nothing of a disk, and would of a layer.
	h, _ := e.start(t)
	sh(t, h, "root", many+"; truncate -s 50M /srv/hole")
	want = listed(t, h)
	if got := listed(t, e.restored(t, fork(t, h, 0))); got != want {
		t.Errorf("the child with a hole has %s", differs(got, want))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := m.Save(ctx, dir, sandbox.SaveOptions{Fork: true}); err == nil {
		t.Error("a fork that was given up succeeded")
	}
	sh(t, m, "root", "true")
}
