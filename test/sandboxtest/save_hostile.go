package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// imageSum is a sum of everything in an image.
func imageSum(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%q %d\n", e.Name(), len(b))
		sum.Write(b)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// hostile is a tree against those who copy trees, made by python3: the host's file
// that it is given is what must not come along.
//
//go:embed programs/hostile.py
var hostile string

// look describes the hostile tree from inside.
const look = `
import os, stat
for top, dirs, files in sorted(os.walk(b"/workspace")):
    for n in sorted(dirs + files):
        p = os.path.join(top, n); st = os.lstat(p)
        print(repr(n), oct(st.st_mode), st.st_nlink if not stat.S_ISDIR(st.st_mode) else 0, st.st_uid, st.st_size if stat.S_ISREG(st.st_mode) else 0,
              os.readlink(p)[:40] if stat.S_ISLNK(st.st_mode) else "")
`

// refused reports whether a save was refused for what the guest made, with a reason.
func refusedTree(err error) bool {
	k := api.KindOf(err)
	return (k == api.KindConflict || k == api.KindUnsupported) && err.Error() != ""
}

func saveHostileCases() []Case {
	return []Case{
		{Name: "save/hostile-tree", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapIsolated}, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			const mark = "the host's own words, which nobody inside may have"
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte(mark), 0o644); err != nil {
				t.Fatal(err)
			}
			b := s.start(t, nil)
			b.run(t, "", "python3", "-c", hostile, secret, "300").want(t, 0, "made\n")
			before := b.run(t, "", "python3", "-c", look)
			dir := s.save(t, b, sandbox.SaveOptions{})
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				image, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(image, []byte(mark)) {
					t.Errorf("the image's %s holds a file of the host's", e.Name())
				}
			}
			c := s.restore(t, dir)
			after := c.run(t, "", "python3", "-c", look)
			if after.Code() != 0 || after.Stdout != before.Stdout {
				t.Errorf("the tree is another one: %s", firstDifference(before.Stdout, after.Stdout))
			}
			for _, user := range s.users() {
				if r := c.run(t, user, "sh", "-c", "cat /workspace/link* /workspace/real/dir/* 2>/dev/null | grep -a 'own words'"); r.Stdout != "" {
					t.Errorf("%s reads the host's file in a child: %q", user, r.Stdout)
				}
			}
			if got, err := os.ReadFile(secret); err != nil || string(got) != mark {
				t.Errorf("the host's file is now %q, %v", got, err)
			}
		}},
		{Name: "save/tree-that-is-too-deep", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.run(t, "", "python3", "-c", hostile, "/nothing", "3000").want(t, 0, "made\n")
			dir, _, err := b.trySave(t, sandbox.SaveOptions{})
			if err != nil && !refusedTree(err) {
				t.Errorf("%v", err)
			}
			b.sh(t, "echo lives; rm -rf d").want(t, 0, "lives\n")
			if err == nil {
				s.restore(t, dir).sh(t, "cat first").want(t, 0, "linked")
			} else {
				s.restore(t, s.save(t, b, sandbox.SaveOptions{})).sh(t, "cat first").want(t, 0, "linked")
			}
		}},
		{Name: "save/full-target", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			small := t.TempDir()
			if err := unix.Mount("small", small, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("no small disk can be mounted here: %v", err)
			}
			defer unix.Unmount(small, unix.MNT_DETACH)
			b := s.start(t, nil)
			b.sh(t, "head -c 4000000 /dev/urandom >file; cksum <file >sum").want(t, 0, "")
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
			defer cancel()
			for _, hold := range []bool{false, true} { // what failed holds nothing
				dir := filepath.Join(small, "image")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Machine.Save(ctx, dir, sandbox.SaveOptions{Hold: hold}); api.KindOf(err) != api.KindExhausted {
					t.Errorf("hold %t: %v", hold, err)
				}
				b.sh(t, "cksum <file | cmp - sum && echo lives").want(t, 0, "lives\n")
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			s.restore(t, s.save(t, b, sandbox.SaveOptions{})).sh(t, "cksum <file | cmp - sum && echo lives").want(t, 0, "lives\n")
		}},
		{Name: "save/canceled", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.sh(t, "head -c 8000000 /dev/urandom >file").want(t, 0, "")
			saver := b.Machine
			for i, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 0, time.Millisecond, 5 * time.Millisecond} {
				hold := i >= 3
				ctx, cancel := context.WithTimeout(t.Context(), after)
				_, err := saver.Save(ctx, t.TempDir(), sandbox.SaveOptions{Hold: hold})
				cancel()
				if err == nil && hold {
					err = saver.Release(t.Context())
				}
				if err != nil && api.KindOf(err) != api.KindTimeout {
					t.Errorf("after %s, hold %t: %v", after, hold, err)
				}
				b.sh(t, "echo lives").want(t, 0, "lives\n")
			}
		}},
		{Name: "save/killed", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			for _, after := range []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond} {
				b := s.start(t, nil)
				b.sh(t, "head -c 30000000 /dev/urandom >file; cksum <file >sum; sync").want(t, 0, "")
				type answer struct {
					dir string
					err error
				}
				done := make(chan answer, 1)
				go func() {
					dir, _, err := b.trySave(t, sandbox.SaveOptions{})
					done <- answer{dir, err}
				}()
				select { // the instant is not asserted: any is right
				case <-time.After(after):
				case <-b.Machine.Done():
				}
				s.kill(t, b)
				switch a := <-done; {
				case a.err == nil:
					s.restore(t, a.dir).sh(t, "cksum <file | cmp - sum && echo whole").want(t, 0, "whole\n")
				case api.KindOf(a.err) != api.KindUnavailable:
					t.Errorf("killed after %s: %v", after, a.err)
				}
			}
		}},
		{Name: "save/cut-image-is-refused", Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			b.sh(t, "head -c 2000000 /dev/urandom >file").want(t, 0, "")
			dir := s.save(t, b, sandbox.SaveOptions{})
			path, size := largest(t, dir)
			if err := os.Truncate(path, size/2); err != nil {
				t.Fatal(err)
			}
			c, _, spec, err := s.tryRestore(t, dir)
			if err == nil {
				t.Errorf("half an image started")
				s.kill(t, c)
			} else if api.KindOf(err) != api.KindConflict {
				t.Errorf("%v", err)
			}
			if left := s.Leftovers(spec.ID); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
		}},
		{Name: "save/killed-before-its-claim", PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			c, m, _, err := s.tryRestore(t, s.save(t, b, sandbox.SaveOptions{}))
			if err != nil {
				t.Fatal(err)
			}
			s.kill(t, c)
			if err := m.Claim(t.Context(), nil); err == nil {
				t.Error("a dead guest was claimed")
			}
		}},
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%q became %q", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines became %d", len(x), len(y))
}
