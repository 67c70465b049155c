package microvmtest

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/storage/layer"
	"hortus.dev/test/tools"
)

// programs are what the cases use of a root file system.
var programs = strings.Fields(`sh bash env printenv cat cp mv rm ls ln mkdir rmdir touch chmod chown head tail wc tr sort uniq cut seq echo printf
	true false test sleep kill id whoami hostname uname date dd df stat tee od base64 sha256sum mktemp yes nproc pwd readlink realpath
	curl openssl cksum cmp sync timeout truncate grep sed awk mawk find xargs ps unshare mount setpriv setsid python3 getent nohup expr basename dirname mkfifo mknod ip ulimit`)

// Tree puts a layer of some programs of this machine, with the libraries that they need, into a store. The disk of the
// whole host template takes minutes to make.
func Tree(t *testing.T, s *layer.Store) layer.Digest {
	t.Helper()
	sum := sha256.Sum256([]byte("microvmtest"))
	tree, err := s.Put(t.Context(), layer.Digest("sha256-"+hex.EncodeToString(sum[:])), func(ctx context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		c := &copier{root: root, done: map[string]bool{}}
		for _, d := range []string{"etc", "proc", "sys", "dev", "tmp", "run", "var", "home", "root", "workspace", "etc/hidden", "etc/ssl/certs", "usr/lib/ssl", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin"} {
			c.err = errors.Join(c.err, os.MkdirAll(filepath.Join(root, d), 0o755))
		}
		for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
			c.err = errors.Join(c.err, os.Symlink("usr/"+d, filepath.Join(root, d)))
		}
		// Certificates, where Debian's OpenSSL looks for them.
		c.err = errors.Join(c.err, os.Symlink("/etc/ssl/certs", filepath.Join(root, "usr/lib/ssl/certs")))
		c.program("/etc/ssl/certs/ca-certificates.crt")
		for _, p := range programs {
			// Not with PATH: the first python3 there may be a script that needs a home directory.
			for _, dir := range []string{"/usr/bin", "/usr/sbin"} {
				if path, err := exec.LookPath(dir + "/" + p); err == nil {
					c.program(path)
					break
				}
			}
		}
		c.library()
		sudo, err := os.ReadFile(filepath.Join(tools.Dir(t), tools.Guest))
		c.err = errors.Join(c.err, err, os.WriteFile(filepath.Join(root, "usr/bin/sudo"), sudo, 0o755))
		for name, text := range map[string]string{
			"passwd":        "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\nhortus:x:65533:65533::/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
			"group":         "root:x:0:\ntty:x:5:\nuser:x:1000:\nhortus:x:65533:\nnogroup:x:65534:\n",
			"hidden/file":   "what a case hides\n",
			"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		} {
			c.err = errors.Join(c.err, os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644))
		}
		return layer.Tree{Root: root, Path: "/home/user/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, c.err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree.Digest
}

// copier copies files of this machine to the same place below a root.
type copier struct {
	root string
	done map[string]bool
	err  error
}

// program copies a program, the links to it, and its libraries.
func (c *copier) program(path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || c.done[path] {
		c.err = errors.Join(c.err, err)
		return
	}
	c.done[path] = true
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	b, err := os.ReadFile(real)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.root+path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(c.root+path, b, 0o755)
	}
	c.err = errors.Join(c.err, err)
	f, err := elf.Open(real)
	if err != nil {
		return // a script
	}
	defer f.Close()
	names, _ := f.ImportedLibraries()
	if s := f.Section(".interp"); s != nil {
		if b, err := s.Data(); err == nil {
			names = append(names, strings.TrimRight(string(b), "\x00"))
		}
	}
	for _, n := range names {
		for _, dir := range []string{"", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu"} {
			p := filepath.Join(dir, n)
			if _, err := os.Stat(p); filepath.IsAbs(p) && err == nil {
				c.program(p)
				break
			}
		}
	}
}

// library copies Python's library, with what its modules need.
func (c *copier) library() {
	dirs, _ := filepath.Glob("/usr/lib/python3.*")
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch name := d.Name(); {
			case err != nil:
				return err
			case d.IsDir() && (name == "__pycache__" || name == "test" || name == "idlelib" || name == "tkinter" || name == "lib2to3"):
				return fs.SkipDir
			case d.Type().IsRegular() && (strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".so")):
				c.program(path)
			}
			return nil
		})
		c.err = errors.Join(c.err, err)
	}
}
