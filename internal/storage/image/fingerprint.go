package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// format is part of every fingerprint: raise it when what is built changes.
const format = "hortus host template 5"

// besideUsr are directories that a host may have beside /usr, or links into it.
var besideUsr = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec"}

// packageDatabases change with every package that is installed or removed.
var packageDatabases = []string{"var/lib/dpkg/status", "var/lib/rpm", "usr/lib/sysimage/rpm", "lib/apk/db/installed", "var/lib/pacman/local"}

// Digest names the tree of this machine as it is now, whether it is built or not:
// of this machine alone, or of all with the same files if Config.Alike is set.
func (h *Host) Digest() (layer.Digest, error) {
	own, err := h.own()
	if err != nil || !h.cfg.Alike {
		return own, err
	}
	return h.alike(own)
}

// Shows reports whether the digest of a tree, with or without Config.Alike, is that of this machine as it is now.
func (h *Host) Shows(d layer.Digest) (bool, error) {
	own, err := h.own()
	if err != nil || own == d {
		return err == nil, err
	}
	alike, err := h.alike(own)
	return err == nil && alike == d, err
}

// own is the fingerprint of this machine, which takes milliseconds: of the format, who
// builds, the sandbox's sudo, the package databases,
// the entries of /usr two levels deep with their times of change, the copied
// parts of /etc one level deep, the toolchains, and the directories where their
// package managers put libraries. A change deeper down that no package manager
// made is not noticed.
func (h *Host) own() (layer.Digest, error) {
	if err := CheckToolchains(h.cfg.Toolchains); err != nil {
		return "", err
	}
	s := sha256.New()
	h.noteBuild(s)
	host := func(p string) string { return filepath.Join(h.cfg.root, p) }
	for _, p := range packageDatabases {
		note(s, host(p))
	}
	if b, err := os.ReadFile(host("etc/os-release")); err == nil {
		fmt.Fprintf(s, "os-release %x\n", sha256.Sum256(b))
	}
	for _, d := range besideUsr {
		noteTree(s, host(d), 1)
	}
	if !note(s, host("usr")) {
		return "", api.Errorf(api.KindUnsupported, "this machine has no /usr for the host template")
	}
	noteTree(s, host("usr"), 2)
	matches, err := h.matches()
	if err != nil {
		return "", err
	}
	for _, m := range matches {
		note(s, m)
		noteTree(s, m, 1)
	}
	for _, c := range findChains(h.cfg) {
		fmt.Fprintf(s, "chain %s\n", c.name)
		note(s, c.dir)
		noteTree(s, c.dir, 2)
		noteLibraries(s, c.dir)
	}
	noteLibraries(s, host("usr"))
	noteLibraries(s, host("usr/local"))
	return layer.Digest("host-" + hex.EncodeToString(s.Sum(nil))), nil
}

// alike is the fingerprint of what own is that of, which machines with the same files share: machines of one image, or pods of one. It has the
// names, kinds, modes, owners, sizes and times of all files, which are the same files as rsync compares them, and takes a second for 150,000 of them. It is kept while own stays.
func (h *Host) alike(own layer.Digest) (layer.Digest, error) {
	h.all.Lock()
	defer h.all.Unlock()
	if h.allOf == own {
		return h.allIs, nil
	}
	s := sha256.New()
	h.noteBuild(s)
	for _, d := range append([]string{"usr"}, besideUsr...) {
		if err := noteAll(s, d, filepath.Join(h.cfg.root, d)); err != nil {
			return "", err
		}
	}
	matches, err := h.matches()
	if err != nil {
		return "", err
	}
	for _, m := range matches {
		if err := noteAll(s, strings.TrimPrefix(m, h.cfg.root), m); err != nil {
			return "", err
		}
	}
	for _, c := range findChains(h.cfg) {
		if err := noteAll(s, "chain "+c.name, c.dir); err != nil {
			return "", err
		}
	}
	h.allOf, h.allIs = own, layer.Digest("host-"+hex.EncodeToString(s.Sum(nil)))
	return h.allIs, nil
}

// noteBuild notes what makes another tree of the same files.
func (h *Host) noteBuild(s hash.Hash) {
	fmt.Fprintf(s, "%s\nuid %d\nsudo %q\n", format, os.Geteuid(), h.cfg.SudoKey)
}

// matches are the parts of /etc that are copied.
func (h *Host) matches() (out []string, err error) {
	for _, pattern := range copied {
		matches, err := filepath.Glob(filepath.Join(h.cfg.root, "etc", pattern))
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "host template: %w", err)
		}
		out = append(out, matches...)
	}
	return out, nil
}

// noteAll notes a file or a directory, under a name, and all below it.
func noteAll(s hash.Hash, name, root string) error {
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		to := ""
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			to, err = os.Readlink(path)
		}
		fmt.Fprintf(s, "%q ", name+strings.TrimPrefix(path, root))
		switch {
		case errors.Is(err, fs.ErrNotExist): // or gone meanwhile: what follows is noted nevertheless
			fmt.Fprintln(s, "is not there")
			return nil
		case errors.Is(err, fs.ErrPermission): // nor can a sandbox read it
			fmt.Fprintln(s, "cannot be read")
			return nil
		case err != nil:
			return err
		}
		fmt.Fprintf(s, "%o %d %d %q", st.Mode, st.Uid, st.Gid, to)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			fmt.Fprintf(s, " %d %d", st.Size, st.Mtim.Nano())
		}
		fmt.Fprintln(s)
		return nil
	})
	if err != nil {
		return api.Errorf(api.KindInternal, "compare the files of this machine with those of others: %w", err)
	}
	return nil
}

// noteLibraries notes the directories that change with each library that pip or
// npm puts below a prefix.
func noteLibraries(s hash.Hash, prefix string) {
	for _, pattern := range []string{"lib/python3*/*-packages", "lib64/python3*/*-packages", "lib/node_modules", "share/nodejs"} {
		// A prefix that holds a pattern's characters has nothing noted.
		matches, _ := filepath.Glob(filepath.Join(prefix, pattern))
		for _, m := range matches {
			note(s, m)
		}
	}
}

// note writes what identifies a file without reading it.
func note(s hash.Hash, path string) bool {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return false
	}
	fmt.Fprintf(s, "%q %o %d %d %d %d %d %d %d\n", path, st.Mode, st.Uid, st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec, st.Mtim.Nano())
	return true
}

// noteTree notes the entries of a directory, so many levels deep.
func noteTree(s hash.Hash, dir string, depth int) {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		note(s, p)
		if depth > 1 && e.IsDir() {
			noteTree(s, p, depth-1)
		}
	}
}
