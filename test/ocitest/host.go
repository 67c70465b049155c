package ocitest

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs returns this machine's own programs with the libraries that they load, at the paths
// where they are, and /bin/sh. It skips the test on a machine that cannot tell the libraries.
func Programs(t testing.TB, names ...string) []Entry {
	t.Helper()
	var out []Entry
	have := map[string]bool{}
	parents := func(p string) {
		var dirs []string
		for d := filepath.Dir(p); d != "/"; d = filepath.Dir(d) {
			dirs = append(dirs, d)
		}
		for i := len(dirs) - 1; i >= 0; i-- {
			if !have[dirs[i]] {
				have[dirs[i]] = true
				out = append(out, Dir(dirs[i][1:]))
			}
		}
	}
	add := func(p string) {
		if have[p] {
			return
		}
		have[p] = true
		parents(p)
		data, err := os.ReadFile(p) // through links: the image has the file itself
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Program(p[1:], string(data)))
	}
	for _, name := range append([]string{"sh"}, names...) {
		p, err := exec.LookPath("/bin/" + name)
		if err != nil {
			t.Fatal(err)
		}
		add(p)
		libs, err := exec.Command("ldd", p).Output()
		if err != nil {
			t.Skipf("this machine cannot tell the libraries of %s: ldd: %v", p, err)
		}
		for _, word := range strings.Fields(string(libs)) {
			if filepath.IsAbs(word) {
				add(filepath.Clean(word))
			}
		}
	}
	return out
}

// Owned gives entries an owner.
func Owned(uid, gid int, entries ...Entry) []Entry {
	for i := range entries {
		entries[i] = entries[i].With(func(h *tar.Header) { h.Uid, h.Gid = uid, gid })
	}
	return entries
}
