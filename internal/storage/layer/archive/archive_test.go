package archive

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/modules"
)

const name = "sha256-0123"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// describe lists a tree: every name with mode, owner, time, size, links and content.
func describe(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		must(t, unix.Lstat(p, &st))
		rel, _ := filepath.Rel(root, p)
		text := []string{time.Unix(st.Mtim.Sec, st.Mtim.Nsec).UTC().String(), os.FileMode(st.Mode).String()}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			must(t, err)
			text = append(text, string(b), strings.Repeat("link ", int(st.Nlink)))
		case unix.S_IFLNK:
			to, err := os.Readlink(p)
			must(t, err)
			text = append(text, to)
		case unix.S_IFCHR:
			text = []string{"whiteout"}
		}
		for _, attr := range []string{"user.mine", opaque} {
			v := make([]byte, 100)
			if n, err := unix.Lgetxattr(p, attr, v); err == nil {
				text = append(text, attr, string(v[:n]))
			}
		}
		if st.Uid != uint32(os.Geteuid()) {
			text = append(text, "of another user")
		}
		out[rel] = strings.Join(text, "; ")
		return nil
	}))
	return out
}

func tree(t *testing.T) string {
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.Mkdir(root, 0o755))
	_, err := modules.Write(t.Context(), root, 300)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(root, "d", strings.Repeat("long", 60)), 0o750))
	must(t, os.WriteFile(filepath.Join(root, "d", "first"), []byte("text"), 0o755))
	must(t, os.Link(filepath.Join(root, "d", "first"), filepath.Join(root, "d", "second")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(root, "link")))
	must(t, unix.Mknod(filepath.Join(root, "gone"), unix.S_IFCHR, 0))
	must(t, unix.Setxattr(filepath.Join(root, "d", "first"), "user.mine", []byte("value"), 0))
	must(t, unix.Setxattr(filepath.Join(root, "d"), opaque, []byte("y"), 0))
	if os.Geteuid() == 0 {
		must(t, os.Lchown(filepath.Join(root, "link"), 1234, 1234))
	}
	must(t, os.Chtimes(filepath.Join(root, "d"), time.Unix(1, 5), time.Unix(1, 5)))
	return root
}

// TestRound: what is restored is what was saved.
func TestRound(t *testing.T) {
	d, root := Dir{t.TempDir()}, tree(t)
	a := Archive{d}
	must(t, a.Save(t.Context(), name, root))
	to := filepath.Join(t.TempDir(), "to")
	must(t, os.Mkdir(to, 0o755))
	must(t, a.Restore(t.Context(), name, to))
	want, got := describe(t, root), describe(t, to)
	for p, text := range want {
		if p != "." && got[p] != text {
			t.Errorf("%s: %.200q, not %.200q", p, got[p], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, not %d", len(got), len(want))
	}
	if files, err := os.ReadDir(d.Path); err != nil || len(files) != 2 {
		t.Errorf("files: %v, %v", files, err)
	}
}

// TestRefused: what an archive cannot hold is not saved, and leaves nothing.
func TestRefused(t *testing.T) {
	for what, make := range map[string]func(root string) error{
		"a pipe":       func(r string) error { return unix.Mkfifo(r+"/pipe", 0o600) },
		"a setuid bit": func(r string) error { return os.Chmod(r+"/d/first", 0o755|os.ModeSetuid) },
		"a name":       func(r string) error { return os.WriteFile(r+"/.wh.x", nil, 0o600) },
		"a mark":       func(r string) error { return unix.Setxattr(r+"/d", "user.overlay.redirect", []byte("/x"), 0) },
	} {
		d, root := Dir{t.TempDir()}, tree(t)
		must(t, make(root))
		if err := (Archive{d}).Save(t.Context(), name, root); api.KindOf(err) != api.KindUnsupported {
			t.Errorf("%s: %v", what, err)
		}
		if files, err := os.ReadDir(d.Path); err != nil || len(files) > 0 {
			t.Errorf("%s: left %v, %v", what, files, err)
		}
	}
	d := Archive{Dir{t.TempDir()}}
	for _, bad := range []string{"", "../x", "a/b", ".new-x", "A", strings.Repeat("a", 200)} {
		if err := d.Save(t.Context(), bad, t.TempDir()); api.KindOf(err) != api.KindInvalid {
			t.Errorf("saved as %q: %v", bad, err)
		}
		if err := d.Restore(t.Context(), bad, t.TempDir()); api.KindOf(err) != api.KindInvalid {
			t.Errorf("restored from %q: %v", bad, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Save(ctx, name, tree(t)); err == nil {
		t.Errorf("a save that nobody waits for: %v", err)
	}
}

// TestTwoSaves: hosts that save one tree at the same time leave an archive that can be restored.
func TestTwoSaves(t *testing.T) {
	a := Archive{Dir{t.TempDir()}}
	errs := make(chan error)
	for range 4 {
		root := tree(t)
		must(t, os.Chtimes(filepath.Join(root, "d", "first"), time.Now(), time.Now())) // other bytes for each
		go func() { errs <- a.Save(t.Context(), name, root) }()
	}
	for range 4 {
		must(t, <-errs)
	}
	must(t, a.Restore(t.Context(), name, t.TempDir()))
}

// TestCheck: a directory that cannot be used is found, with what to do.
func TestCheck(t *testing.T) {
	must(t, Archive{Dir{t.TempDir()}}.Check(t.Context()))
	err := Archive{Dir{filepath.Join(t.TempDir(), "gone")}}.Check(t.Context())
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(api.HintOf(err), "daemon.layer-archive") {
		t.Errorf("%v, %q", err, api.HintOf(err))
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"blob":"sha256-0123-0123456789abcdef.tar.zst","bytes":1,"sha256":"0","files":1,"entries":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parse(name, bytes.NewReader(b)); err == nil && (r.Bytes <= 0 || r.Entries < 0 || r.Files < 0 || CheckBlob(r.Blob) != nil) {
			t.Errorf("%+v", r)
		}
	})
}
