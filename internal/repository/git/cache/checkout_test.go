package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

func TestCheckout(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a.txt": "one\n", "run.sh": "#!/bin/sh\n", "lf.bat": "x\n", "id.c": "$Id$\n", "big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
		".gitattributes": "*.bat text eol=crlf\n*.c ident\n*.bin filter=lfs diff=lfs merge=lfs -text\n*.u16 working-tree-encoding=UTF-16\n", "crlf.bat": "y\r\n"})
	os.Chmod(filepath.Join(src, "run.sh"), 0o755)
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "abs")); err != nil {
		t.Fatal(err)
	}
	gittest.Git(t, src, "add", "-A")
	gittest.Git(t, src, "commit", "-qm", "second")
	gittest.WriteFiles(t, src, map[string]string{"a.txt": "two\n"})
	gittest.Git(t, src, "commit", "-qam", "third")
	gittest.Git(t, src, "branch", "other", "HEAD~1")
	gittest.Git(t, src, "tag", "v1")
	r := fetch(t, newCache(t), src)
	h := head(t, r)
	for _, depth := range []int{0, 1, 2} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			dir := filepath.Join(gittest.RealPath(t, t.TempDir()), "w")
			res, err := r.Checkout(gittest.Context(t), h.Hash, dir, CheckoutOptions{Branch: "hortus/x", Depth: depth})
			if err != nil {
				t.Fatal(err)
			}
			files, err := r.Files(gittest.Context(t), h.Hash)
			if err != nil {
				t.Fatal(err)
			}
			var sum int64
			for _, e := range files {
				sum += e.Size
				p := filepath.Join(dir, e.Path)
				info, err := os.Lstat(p)
				if err != nil {
					t.Error(err)
					continue
				}
				if info.Size() != e.Size || (info.Mode()&0o100 != 0) != (e.Mode == Executable) && e.Mode != Symlink || (info.Mode().Type() == os.ModeSymlink) != (e.Mode == Symlink) {
					t.Errorf("%s: %v for %+v", e.Path, info, e)
				}
				if e.Mode == Symlink {
					continue
				}
				want, err := r.ReadFile(gittest.Context(t), h.Hash, e.Path, 1000)
				if got, e2 := os.ReadFile(p); err != nil || e2 != nil || string(got) != string(want) {
					t.Errorf("%s: %q for %q (%v, %v)", e.Path, got, want, err, e2)
				}
			}
			if res.Files != len(files) || res.Bytes != sum {
				t.Errorf("got %+v, want %d files, %d bytes", res, len(files), sum)
			}
			if to, _ := os.Readlink(filepath.Join(dir, "abs")); to != "/etc/passwd" {
				t.Errorf("the link points at %q", to)
			}
			// It stands by itself: the cache may go.
			moved := r.dir + ".moved"
			if err := os.Rename(r.dir, moved); err != nil {
				t.Fatal(err)
			}
			defer os.Rename(moved, r.dir)
			for _, refresh := range []bool{false, true} {
				if refresh { // so that contents are compared, not times
					if err := os.Chtimes(filepath.Join(dir, "lf.bat"), h.Time, h.Time); err != nil {
						t.Fatal(err)
					}
				}
				if out := gittest.Git(t, dir, "status", "--porcelain=v1", "--branch"); out != "## hortus/x" {
					t.Errorf("status: %s", out)
				}
			}
			want := map[int]string{0: "3", 1: "1", 2: "2"}[depth]
			if got := gittest.Git(t, dir, "rev-list", "--count", "HEAD"); got != want {
				t.Errorf("%s commits, want %s", got, want)
			}
			if got := gittest.Git(t, dir, "for-each-ref", "--format=%(refname)"); got != "refs/heads/hortus/x" {
				t.Errorf("refs: %s", got)
			}
			gittest.Git(t, dir, "fsck")
			if got := gittest.Git(t, dir, "config", "--local", "--list"); strings.ContainsAny(got, "/@") || strings.Contains(got, "remote") || strings.Contains(got, "worktree") {
				t.Errorf("configuration:\n%s", got)
			}
			for _, gone := range []string{"hooks", "logs", "objects/info/alternates", "FETCH_HEAD"} {
				if _, err := os.Lstat(filepath.Join(dir, ".git", gone)); err == nil {
					t.Errorf(".git/%s is there", gone)
				}
			}
			// Who works there can commit.
			gittest.WriteFiles(t, dir, map[string]string{"new": "x"})
			gittest.Git(t, dir, "add", "-A")
			gittest.Git(t, dir, "commit", "-qm", "more")
		})
	}
	full := t.TempDir()
	gittest.WriteFiles(t, full, map[string]string{"x": "x"})
	_, err := r.Checkout(gittest.Context(t), h.Hash, full, CheckoutOptions{})
	gittest.WantKind(t, err, api.KindConflict, "not an empty")
	_, err = r.Checkout(gittest.Context(t), h.Hash, filepath.Join(t.TempDir(), "w"), CheckoutOptions{MaxFiles: 3})
	gittest.WantKind(t, err, api.KindExhausted, "3 files")
	_, err = r.Checkout(gittest.Context(t), h.Hash, filepath.Join(t.TempDir(), "w"), CheckoutOptions{MaxBytes: 30})
	gittest.WantKind(t, err, api.KindExhausted, "30 bytes")
	_, err = r.Checkout(gittest.Context(t), h.Hash, filepath.Join(t.TempDir(), "w"), CheckoutOptions{Branch: "--x"})
	gittest.WantKind(t, err, api.KindInvalid, "")
	_, err = r.Checkout(gittest.Context(t), "main", filepath.Join(t.TempDir(), "w"), CheckoutOptions{})
	gittest.WantKind(t, err, api.KindInvalid, "")
}
