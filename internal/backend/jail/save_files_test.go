package jail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// saves skips where no files can be saved, after looking that this is said.
func saves(t testing.TB, e *env) {
	t.Helper()
	if a, ok := e.Probe(t.Context()).Has(api.CapPause); !ok {
		t.Skipf("a sandbox cannot be made to stand still here: %s", a.Reason)
	}
}

func save(t testing.TB, m sandbox.Machine, o sandbox.SaveOptions) string {
	t.Helper()
	dir := t.TempDir()
	s, err := m.Save(t.Context(), dir, o)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	if s.Kind != api.SnapshotFiles || s.Mark != (api.ImageMark{Backend: "container"}) || s.Paused <= 0 || (s.Why == "") != o.Files {
		t.Errorf("saved %+v", s)
	}
	return dir
}

// restored starts a machine from what was saved.
func (e *env) restored(t testing.TB, dir string) sandbox.Machine {
	t.Helper()
	spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "garden"}
	m, err := e.Restore(t.Context(), spec, dir)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	t.Cleanup(func() { kill(t, m) })
	if err := m.Claim(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSaveNeedsAFreezer(t *testing.T) {
	e := newEnv(t)
	a, ok := e.Probe(t.Context()).Has(api.CapPause)
	if ok {
		t.Skip("this host has one")
	}
	m, _ := e.start(t)
	_, err := m.Save(t.Context(), t.TempDir(), sandbox.SaveOptions{Files: true})
	if api.KindOf(err) != api.KindUnsupported || !strings.Contains(err.Error(), a.Reason) {
		t.Errorf("%v", err)
	}
	sh(t, m, "user", "true")
	if c, _ := e.Probe(t.Context()).Has(api.CapCheckpoint); !strings.Contains(c.Reason, "freezer") {
		t.Errorf("%+v", c)
	}
}

func TestSaveFiles(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m, _ := e.start(t)
	sh(t, m, "user", "echo parent > /workspace/file && mkdir /tmp/d && chmod 0750 /tmp/d && : > /tmp/d/secret && chmod 0 /tmp/d/secret && ln /workspace/file /workspace/twin && ln -s /etc/passwd /tmp/link && mkfifo /tmp/pipe && touch -d @1000000000 /workspace/twin")
	if isRoot() {
		sh(t, m, "root", "rm /srv/tree/deep/file && rmdir /srv/tree/deep && mkdir /srv/tree/deep && echo r > /root/r && chmod 4755 /root/r && echo more >> /etc/passwd && rm /test-binary")
	}
	dir := save(t, m, sandbox.SaveOptions{})
	sh(t, m, "user", "echo later >> /workspace/file; : > /tmp/later")
	one, two := e.restored(t, dir), e.restored(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	kill(t, m)
	for _, c := range []sandbox.Machine{one, two} {
		got := sh(t, c, "user", `cat /workspace/twin; stat -c '%a %h %Y' /workspace/file; stat -c %a /tmp/d /tmp/d/secret; readlink /tmp/link; [ -p /tmp/pipe ]; ls /tmp; id -u; stat -c %u /workspace/file /home/user /tmp`)
		want := "parent\n644 2 1000000000\n750\n0\n/etc/passwd\nd\nlink\npipe\n1000\n1000\n1000\n"
		if isRoot() {
			want += "0"
		} else {
			want += "1000"
		}
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if isRoot() {
			if got := sh(t, c, "root", `cat /root/r; stat -c '%a %u' /root/r; tail -n1 /etc/passwd; ls -A /srv/tree/deep; [ ! -e /test-binary ]`); got != "r\n4755 0\nmore" {
				t.Errorf("got\n%s", got)
			}
		}
	}
	sh(t, one, "user", "echo mine > /workspace/file; rm /workspace/twin")
	if got := sh(t, two, "user", "cat /workspace/twin"); got != "parent" {
		t.Errorf("a sibling's write is seen: %q", got)
	}
	// What is a child can be a parent.
	if got := sh(t, e.restored(t, save(t, one, sandbox.SaveOptions{Files: true})), "user", "cat /workspace/file; [ ! -e /workspace/twin ]"); got != "mine" {
		t.Errorf("%q", got)
	}
}

func TestSaveKeepsPauses(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m, _ := e.start(t)
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := save(t, m, sandbox.SaveOptions{})
	if _, err := try(m, request{Args: []string{"/bin/true"}}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a paused sandbox answers after its save: %v", err)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, m, "user", "true")
	sh(t, e.restored(t, dir), "user", "true")
}

// TestSaveAndHold ends a sandbox that is paused after its save: nothing of it sees
// that it could have gone on.
func TestSaveAndHold(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m, _ := e.start(t)
	sh(t, m, "user", "echo last > /workspace/file")
	dir := save(t, m, sandbox.SaveOptions{Hold: true})
	select {
	case <-m.Done():
		t.Error("it has ended before anybody asked for it")
	default:
	}
	if _, err := m.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, e.restored(t, dir), "user", "cat /workspace/file"); got != "last" {
		t.Errorf("%q", got)
	}
	if _, err := m.Save(t.Context(), t.TempDir(), sandbox.SaveOptions{}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("%v", err)
	}
}

func TestRestoreRefusesBadImages(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m, _ := e.start(t)
	sh(t, m, "user", "head -c 3000000 /dev/urandom > /workspace/file")
	whole, err := os.ReadFile(filepath.Join(save(t, m, sandbox.SaveOptions{}), "files"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, b []byte, want api.Kind, change func(*sandbox.Spec)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if b != nil {
				if err := os.WriteFile(filepath.Join(dir, "files"), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "garden"}
			if change != nil {
				change(&spec)
			}
			p, err := e.Restore(t.Context(), spec, dir)
			if err == nil {
				kill(t, p)
			}
			if api.KindOf(err) != want {
				t.Errorf("%v; want %s", err, want)
			}
			if _, err := os.Stat(filepath.Join(e.dir, string(spec.ID))); !os.IsNotExist(err) {
				t.Errorf("left over: %v", err)
			}
		})
	}
	try("none", nil, api.KindConflict, nil)
	try("empty", []byte{}, api.KindConflict, nil)
	try("cut", whole[:len(whole)-2000000], api.KindConflict, nil)
	try("without its end", whole[:len(whole)-1], api.KindConflict, nil)
	try("more", append(whole[:len(whole):len(whole)], 0), api.KindConflict, nil)
	try("too small a disk", whole, api.KindExhausted, func(s *sandbox.Spec) { s.Limits.DiskBytes = 1 << 20 })
}
