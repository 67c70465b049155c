package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// format is part of every fingerprint: raise it when what is built changes.
const format = "hortus host template 5"

// packageDatabases change with every package that is installed or removed.
var packageDatabases = []string{"var/lib/dpkg/status", "var/lib/rpm", "usr/lib/sysimage/rpm", "lib/apk/db/installed", "var/lib/pacman/local"}

// Digest names the tree of this machine as it is now, whether it is built or not.
// It is the fingerprint of the format, who builds, the sandbox's sudo, the package databases,
// the entries of /usr two levels deep with their times of change, the copied
// parts of /etc one level deep, the toolchains, and the directories where their
// package managers put libraries. A change deeper down that no package manager
// made is not noticed.
func (h *Host) Digest() (layer.Digest, error) {
	if err := CheckToolchains(h.cfg.Toolchains); err != nil {
		return "", err
	}
	s := sha256.New()
	fmt.Fprintf(s, "%s\nuid %d\nsudo %q\n", format, os.Geteuid(), h.cfg.SudoKey)
	host := func(p string) string { return filepath.Join(h.cfg.root, p) }
	for _, p := range packageDatabases {
		note(s, host(p))
	}
	if b, err := os.ReadFile(host("etc/os-release")); err == nil {
		fmt.Fprintf(s, "os-release %x\n", sha256.Sum256(b))
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec"} {
		noteTree(s, host(d), 1)
	}
	if !note(s, host("usr")) {
		return "", api.Errorf(api.KindUnsupported, "this machine has no /usr for the host template")
	}
	noteTree(s, host("usr"), 2)
	for _, pattern := range copied {
		matches, err := filepath.Glob(filepath.Join(host("etc"), pattern))
		if err != nil {
			return "", api.Errorf(api.KindInternal, "host template: %w", err)
		}
		for _, m := range matches {
			note(s, m)
			noteTree(s, m, 1)
		}
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
