package run

import (
	"io/fs"
	"path"
	"strings"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"hortus.dev/internal/backend/wasm/memfs"
)

// Top are the directories of a sandbox's root.
var Top = []string{"home", "lib", "tmp", "workspace"}

// view is the file system that a module sees. WASI has no working directory: what a program calls
// "a" arrives as "a" below the root. So a path below one of Top is absolute, and any other one is
// relative to dir.
type view struct {
	fs  *memfs.Client
	dir string
}

// at returns the path in the sandbox.
func (v view) at(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	first, _, _ := strings.Cut(p, "/")
	for _, top := range Top {
		if first == top {
			return "/" + p
		}
	}
	return path.Join(v.dir, p)
}

func (v view) OpenFile(p string, flag experimental.Oflag, mode fs.FileMode) (experimental.File, experimental.Errno) {
	return v.fs.OpenFile(v.at(p), flag, mode)
}

func (v view) Lstat(p string) (sys.Stat_t, experimental.Errno) { return v.fs.Lstat(v.at(p)) }
func (v view) Stat(p string) (sys.Stat_t, experimental.Errno)  { return v.fs.Stat(v.at(p)) }
func (v view) Chmod(p string, mode fs.FileMode) experimental.Errno {
	return v.fs.Chmod(v.at(p), mode)
}
func (v view) Mkdir(p string, mode fs.FileMode) experimental.Errno {
	return v.fs.Mkdir(v.at(p), mode)
}
func (v view) Rename(from, to string) experimental.Errno { return v.fs.Rename(v.at(from), v.at(to)) }
func (v view) Rmdir(p string) experimental.Errno         { return v.fs.Rmdir(v.at(p)) }
func (v view) Unlink(p string) experimental.Errno        { return v.fs.Unlink(v.at(p)) }
func (v view) Link(string, string) experimental.Errno    { return experimental.ENOSYS }
func (v view) Symlink(target, p string) experimental.Errno {
	return v.fs.Symlink(target, v.at(p))
}
func (v view) Readlink(p string) (string, experimental.Errno) { return v.fs.Readlink(v.at(p)) }
func (v view) Utimens(p string, atime, mtime int64) experimental.Errno {
	return v.fs.Utimens(v.at(p), atime, mtime)
}

var _ experimental.FS = view{}
