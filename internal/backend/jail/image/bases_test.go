package image

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

const (
	first, second, third = "0123456789abcdef", "1123456789abcdef", "2123456789abcdef"
	parent               = api.SandboxID("sandboxparent0123456")
)

// file makes a file and returns a descriptor of it, which the caller owns.
func file(t *testing.T, path, content string) int {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// sandboxUID is the owner of the memory of kernels, if root runs the test.
const sandboxUID = 65534

// memory makes what a kernel has its memory in, and returns a descriptor of it.
func memory(t *testing.T, uid int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.Write(fd, []byte("memory"))
	if err == nil && os.Geteuid() == 0 {
		err = unix.Fchown(fd, uid, uid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestBases: the image of a child has links to what is on the disk, the memory of the parent is
// handed over, and what is restored from it has both.
func TestBases(t *testing.T) {
	id := api.NewSandboxID()
	dir, own, into := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "bases")
	on := file(t, filepath.Join(own, BaseFile(first)), "on the disk")
	if err := writeNew(own, holderFile(second), []byte(id)); err != nil {
		t.Fatal(err)
	}
	live := memory(t, sandboxUID)
	m := Memory{ID: api.NewSandboxID(), Bases: own, Freeze: third}
	b, held, err := m.writeBases(dir, []string{first, second, third}, []int{on, live, live})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if len(held) != 2 || held[second] == nil || held[third] == nil || b.Holders[second] != id || b.Holders[third] != m.ID {
		t.Errorf("held: %v, by %v", held, b.Holders)
	}
	for _, f := range held {
		if _, err := f.WriteString("x"); err == nil {
			t.Error("the memory of a parent can be written")
		}
	}
	file(t, filepath.Join(dir, "pages"), "own pages")
	got, ok, err := ReadBases(dir)
	if err != nil || !ok || got.Own != b.Own || !slices.Equal(got.Others, b.Others) || !slices.Equal(got.Files(), []string{BaseFile(first)}) {
		t.Fatalf("%+v, %v, %v", got, ok, err)
	}
	if err := Keep(dir, "pages", got, into); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{BaseFile(b.Own): "own pages", BaseFile(first): "on the disk"} {
		if text, err := os.ReadFile(filepath.Join(into, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	holders, err := Holders(into)
	if err != nil || len(holders) != 2 || holders[second] != id || holders[third] != m.ID {
		t.Errorf("holders: %v, %v", holders, err)
	}
	if none, err := Holders(filepath.Join(into, "missing")); err != nil || len(none) != 0 {
		t.Errorf("a sandbox without bases: %v, %v", none, err)
	}
}

// TestBasesOfLiars: what a kernel says of its bases is not believed. The control is TestBases.
func TestBasesOfLiars(t *testing.T) {
	own := t.TempDir()
	on := file(t, filepath.Join(own, BaseFile(first)), "on the disk")
	secret := filepath.Join(t.TempDir(), "secret")
	file(t, secret, "of the host")
	if err := os.Symlink(secret, filepath.Join(own, BaseFile(second))); err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	many := make([]string, MaxBases+1)
	for i := range many {
		many[i] = NewBase()
	}
	for name, c := range map[string]struct {
		names []string
		fds   []int
		says  string
	}{
		"a base that it does not have": {[]string{third}, []int{on}, "no such file"},
		"a link":                       {[]string{second}, []int{on}, "not a regular file"},
		"a path":                       {[]string{"../../../etc/pass"}, []int{on}, "invalid name"},
		"upper case":                   {[]string{strings.ToUpper(first)}, []int{on}, "invalid name"},
		"one twice":                    {[]string{first, first}, []int{on, on}, "invalid name"},
		"no file":                      {[]string{first}, nil, "too few files"},
		"too many":                     {many, make([]int, len(many)), "too many"},
		"a pipe as memory":             {[]string{"f123456789abcdef"}, []int{pipe[0]}, "not a file"},
		"a file as memory":             {[]string{"f123456789abcdef"}, []int{on}, "not in memory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := Memory{ID: api.NewSandboxID(), Bases: own, Freeze: "f123456789abcdef"}
			_, held, err := m.writeBases(dir, c.names, c.fds)
			held.Close()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestHeldMemory: whoever gets the memory of a kernel cannot open it again for writing, also as the
// user whose the memory was, and the kernel writes on. The control is memory that nobody else has.
func TestHeldMemory(t *testing.T) {
	again := func(f *os.File) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec 4<>/proc/self/fd/3; chmod 600 /proc/self/fd/3 && exec 5<>/proc/self/fd/3")
		cmd.ExtraFiles = []*os.File{f}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: sandboxUID, Gid: sandboxUID}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	fd := memory(t, sandboxUID)
	open, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := again(open); err != nil {
		t.Fatalf("memory that is not protected: %v", err)
	}
	for turn := range 2 { // it can be forked again
		f, err := readOnly(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := again(f); err == nil || !strings.Contains(err.Error(), "ermission denied") {
			t.Errorf("turn %d: opened again: %v", turn, err)
		}
		if _, err := unix.Pwrite(fd, []byte("on"), 0); err != nil {
			t.Errorf("turn %d: its kernel writes: %v", turn, err)
		}
	}
	if os.Geteuid() == 0 {
		if _, err := readOnly(memory(t, 0)); err == nil || !strings.Contains(err.Error(), "of the host's") {
			t.Errorf("memory of root: %v", err)
		}
	}
}

func FuzzReadBases(f *testing.F) {
	for _, b := range []Bases{{Own: first}, {Own: first, Others: []string{second}, Holders: map[string]api.SandboxID{second: parent}}} {
		text, err := json.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"own":"../../etc/passwd","others":["a/b"]}`))
	f.Add([]byte(`{"own":"0123456789abcdef","others":null,"holders":{"x":"y"}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, basesName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		b, ok, err := ReadBases(dir)
		if err != nil || !ok {
			return
		}
		for _, name := range b.Names() {
			if strings.ContainsAny(BaseFile(name), "/\x00") || len(name) != 16 {
				t.Errorf("a base called %q", name)
			}
		}
		for name, id := range b.Holders {
			if !slices.Contains(b.Others, name) || !id.Valid() {
				t.Errorf("%q is held by %q", name, id)
			}
		}
	})
}

// TestFrozen notes what a sandbox holds for others.
func TestFrozen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bases")
	want := func(names ...string) {
		t.Helper()
		got, err := Frozen(dir)
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("%q, %v; want %q", got, err, names)
		}
	}
	want() // there is no directory
	const one, two = "0000000000000001", "0000000000000002"
	for _, name := range []string{one, two} {
		if err := NoteFrozen(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := NoteFrozen(dir, one); err == nil {
		t.Error("a name was noted twice")
	}
	for _, other := range []string{BaseFile(one), holderFile(two), "base-x.frozen", "base-../../etc.frozen"} {
		_ = os.WriteFile(filepath.Join(dir, other), []byte("x"), 0o600) // not all are names
	}
	want(one, two)
	for range 2 { // what is forgotten is not missed
		if err := ForgetFrozen(dir, one); err != nil {
			t.Error(err)
		}
	}
	want(two)
}
