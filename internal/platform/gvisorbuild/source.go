//go:build linux

package gvisorbuild

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"hortus.dev/api"
)

// module is the directory of gVisor's module in the source tree.
const module = "cmd/hortus-runsc"

// Source returns the source tree that this program was compiled from. The error is of
// KindUnsupported if the program does not know it, as in a release, or if the tree is
// not there any more.
func Source() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", api.Errorf(api.KindUnsupported, "the source tree of this program is unknown").
			WithHint("run the command in a source tree: go run ./cmd/hortus gvisor build; or use a release, which includes gVisor")
	}
	root, _, _ := strings.Cut(filepath.ToSlash(file), "/internal/platform/gvisorbuild/")
	return root, checkSource(root)
}

// GoRun reports whether go run made this program: its file lies in Go's build cache or in a
// directory of an unfinished build.
func GoRun() bool {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "go-build") {
			return true
		}
	}
	return false
}

// checkSource checks that a directory is a source tree of hortus whose files no stranger
// has made: building it runs nothing of it, but the result will run.
func checkSource(root string) error {
	bad := func(reason string) error {
		return api.Errorf(api.KindUnsupported, "gVisor cannot be built from %s: %s", root, reason).
			WithHint("run the command in a source tree of your own: go run ./cmd/hortus gvisor build")
	}
	for name, first := range map[string]string{"go.mod": "module hortus.dev\n", module + "/go.mod": "module hortus.dev/" + module + "\n"} {
		path := filepath.Join(root, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return bad(err.Error())
		}
		if !bytes.HasPrefix(b, []byte(first)) {
			return bad(path + " is of another module")
		}
		info, err := os.Stat(path)
		if err != nil {
			return bad(err.Error())
		}
		if !ownFile(info) {
			return bad(path + " is owned by another user, or anybody may write to it")
		}
	}
	return nil
}

// key names what a build is made of: the files of the module, and the compiler.
func key(root string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH)
	err := filepath.WalkDir(filepath.Join(root, module), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", strings.TrimPrefix(path, root), len(b), b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// ownFile reports whether a file belongs to root or to this user, and not everybody may
// write to it.
func ownFile(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && info.Mode()&0o002 == 0
}
