package image

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is copied from /etc.
const (
	maxEtcFile  = 8 << 20
	maxEtcTotal = 64 << 20
)

// copied are the parts of /etc that programs need and that hold no secret by
// their nature, as patterns. What is not here is not shown.
var copied = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "gai.conf",
	"ethertypes", "groff", "host.conf", "inputrc", "java", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias",
	"locale.conf", "localtime", "maven/logging", "maven/m2.conf", "maven/toolchains.xml", // not settings.xml, which has passwords of servers
	"php/*/cli/conf.d", "php/*/mods-available", "R/ldpaths", "R/Makeconf", "R/Renviron", "R/javaconf", "R/repositories",
	"lsb-release", "magic", "magic.mime", "manpath.config", "matplotlibrc", "mime.types", "networks", "os-release",
	"pki/ca-trust/extracted", "pki/java", "pki/tls/certs", "pki/tls/cert.pem", "perl", "protocols", "python2*", "python3*", "redhat-release",
	"rpc", "services", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "terminfo", "timezone", "vim",
}

// written are the files of /etc that are made here.
var written = map[string]string{
	"passwd": "root:x:0:0:root:/root:/bin/bash\n" +
		"user:x:1000:1000:user:/home/user:/bin/bash\n" +
		"hortus:x:65533:65533:hortus guest:/nonexistent:/usr/sbin/nologin\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":         "root:x:0:\ntty:x:5:\nuser:x:1000:\nhortus:x:65533:\nnogroup:x:65534:\n",
	"hosts":         "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n",
	"hostname":      "hortus\n",
	"resolv.conf":   "# Written when a sandbox starts.\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n",
	"shells":        "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n",
	"bash.bashrc":   "[ -z \"$PS1\" ] && return\nshopt -s checkwinsize\nPS1='\\u@\\h:\\w\\$ '\n",
	"environment":   "",
}

// etc fills the skeleton's /etc.
func (b *builder) etc() error {
	c := &copier{b: b}
	for _, pattern := range copied {
		matches, err := filepath.Glob(filepath.Join(b.host("etc"), pattern))
		if err != nil {
			return err
		}
		sort.Strings(matches)
		for _, m := range matches {
			rel, err := filepath.Rel(b.host("etc"), m)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(b.root, "etc", rel)), 0o755); err != nil {
				return err
			}
			if err := c.copy(rel); err != nil {
				return err
			}
		}
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(b.root, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	profile := fmt.Sprintf("# PATH is set for login shells too. Root's has no directory of the user's.\nif [ \"${EUID:-$(id -u)}\" = 0 ]; then export PATH=%q; else export PATH=%q; fi\nif [ -n \"$BASH\" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n",
		strings.TrimPrefix(b.path(), userBin+":"), b.path())
	if err := os.WriteFile(filepath.Join(b.root, "etc/profile"), []byte(profile), 0o644); err != nil {
		return err
	}
	return os.Symlink("/proc/self/mounts", filepath.Join(b.root, "etc/mtab"))
}

// copier copies files that everybody may read.
type copier struct {
	b     *builder
	total int64
}

func (c *copier) copy(rel string) error {
	if err := c.b.ctx.Err(); err != nil {
		return err
	}
	src, dst := filepath.Join(c.b.host("etc"), rel), filepath.Join(c.b.root, "etc", rel)
	var st unix.Stat_t
	if err := unix.Lstat(src, &st); err != nil {
		return nil // removed since
	}
	switch mode := st.Mode & unix.S_IFMT; {
	case mode == unix.S_IFLNK:
		target, err := os.Readlink(src)
		if err != nil {
			return nil
		}
		return os.Symlink(target, dst)
	case mustHide(st.Mode):
		c.b.hidden++
		return nil
	case mode == unix.S_IFDIR:
		entries, err := os.ReadDir(src)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dst, 0o755); err != nil {
			return err
		}
		for _, e := range entries {
			if err := c.copy(filepath.Join(rel, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	return c.file(src, dst, os.FileMode(st.Mode&0o755|0o644))
}

var privateKey = []byte("PRIVATE KEY-----")

func (c *copier) file(src, dst string, mode os.FileMode) error {
	fd, err := unix.Open(src, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // changed since it was looked at
	}
	f := os.NewFile(uintptr(fd), src)
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEtcFile+1))
	if err != nil {
		return err
	}
	if c.total += int64(len(data)); len(data) > maxEtcFile || c.total > maxEtcTotal || bytes.Contains(data, privateKey) {
		c.b.hidden++
		return nil
	}
	return os.WriteFile(dst, data, mode)
}
