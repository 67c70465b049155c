package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/internal/platform/embedded"
)

// The environment variables that name existing programs.
const (
	Variable      = "HORTUS_TOOLS"
	RunscVariable = "HORTUS_RUNSC"
)

// The paths of the programs below a directory, as the gvisor backend expects them.
const (
	Runsc = "hortus-runsc"
	Guest = "guest/hortus-guest"
)

// unused is how long programs that no test uses are kept, unusedBuild the same of a directory in which they are built: it takes minutes to fill.
const (
	unused      = 24 * time.Hour
	unusedBuild = 3 * 24 * time.Hour
)

// Dir returns a directory with both programs, which does not change. It skips the test if
// the programs are not available.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := Built()
	if err != nil {
		Cannot(t, "the programs of the gvisor backend cannot be had: %v", err)
	}
	return dir
}

// Cannot ends a test because gVisor is not available on this machine: it skips the test,
// or fails it if [Variable] is set.
func Cannot(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(Variable) != "" {
		t.Fatalf(format+" ("+Variable+" is set: not skipped)", args...)
	}
	t.Skipf(format, args...)
}

// Hortus builds hortus with the small guest and gVisor embedded, and copies it to path. If
// gVisor is not available, it builds hortus without gVisor and returns the reason in
// gvisor. The build is kept in the user's cache, so that only the first test binary of a
// run builds it. It is built with the flags of go test, not with those of a release, so that
// no package is compiled a second time for it.
func Hortus(path string) (gvisor, err error) {
	module, err := root()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "hortus-tests")
	programs, gvisor := Built()
	unlock, here, err := lockBuild(cache, module)
	if err != nil {
		return gvisor, err
	}
	defer unlock()
	guest := filepath.Join(here, "hortus-guest")
	if err := compile(module, guest, "./cmd/hortus-guest"); err != nil {
		return gvisor, err
	}
	tags, files := "embedguest", map[string]string{"hortus-guest": guest}
	if gvisor == nil {
		packed := filepath.Join(here, Runsc+".packed")
		if err := pack(filepath.Join(programs, Runsc), packed); err != nil {
			return gvisor, err
		}
		tags, files = tags+",embedrunsc", map[string]string{"hortus-guest": filepath.Join(programs, Guest), Runsc + ".packed": packed}
	}
	// With the overlay the compiler embeds them without changes to the source tree.
	replace := map[string]string{}
	for name, from := range files {
		replace[filepath.Join(module, "internal/platform/embedded/guest", name)] = from
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return gvisor, err
	}
	overlay, out := filepath.Join(here, "overlay.json"), filepath.Join(here, "hortus")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return gvisor, err
	}
	if err := toolchain(module, os.Environ(), "build", "-ldflags", "-s -w", "-o", out, "-tags", tags, "-overlay", overlay, "./cmd/hortus"); err != nil {
		return gvisor, err
	}
	if b, err = os.ReadFile(out); err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	return gvisor, err
}

// pack compresses a runsc for the binary that embeds it, unless that was done before.
func pack(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	if had, err := os.ReadFile(to); err == nil && bytes.Contains(had[:min(len(had), 1<<10)], []byte(hex.EncodeToString(sum[:]))) {
		return nil
	}
	if b, err = embedded.Pack(b); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// Program builds a program of this module without the C library, so that it runs in a
// sandbox without files, and returns its path. pkg is relative to the module.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	module, err := root()
	if err == nil {
		err = compile(module, path, pkg)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Built finds or builds the programs of [Dir], once per process, and returns their directory.
var Built = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(Variable); dir != "" {
		for _, name := range []string{Runsc, Guest} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return build(filepath.Join(cache, "hortus-tests"), os.Getenv(RunscVariable))
})

// build builds both programs and keeps them below the cache directory. If runsc is not
// empty, it is the path of an existing runsc.
func build(cache, runsc string) (string, error) {
	module, err := root()
	if err != nil {
		return "", err
	}
	unlock, here, err := lockBuild(cache, module)
	if err != nil {
		return "", err
	}
	defer unlock()
	guest := filepath.Join(here, "hortus-guest")
	if err := compile(module, guest, "./cmd/hortus-guest"); err != nil {
		return "", err
	}
	if runsc == "" {
		runsc = filepath.Join(here, Runsc)
		if err := compileRunsc(filepath.Join(module, "cmd", Runsc), here, runsc); err != nil {
			return "", err
		}
	}
	dir, err := keep(cache, map[string]string{Runsc: runsc, Guest: guest})
	if err == nil {
		prune(cache, dir)
	}
	return dir, err
}

// lockBuild makes the directory in which a module's programs are built, and locks it
// against other processes until unlock. The directory is reused, because the toolchain
// does not rebuild a program that is up to date. The lock is that of all such directories: who has it may remove others.
func lockBuild(cache, module string) (unlock func(), dir string, err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return nil, "", err
	}
	dir = filepath.Join(cache, fmt.Sprintf("build-%.8x", sha256.Sum256([]byte(module))))
	now := time.Now()
	if err = os.MkdirAll(dir, 0o755); err == nil {
		err = os.Chtimes(dir, now, now) // see prune
	}
	if err != nil {
		lock.Close()
		return nil, "", err
	}
	return func() { lock.Close() }, dir, nil
}

// root returns the directory of the module that contains the test.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module hortus.dev\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is not below the module hortus.dev")
		}
		dir = filepath.Dir(dir)
	}
}

// compileRunsc builds runsc of a changed copy of gVisor, which is kept in cache.
func compileRunsc(dir, cache, out string) error {
	if err := toolchain(dir, static(), "run", "./patch", cache); err != nil {
		return err
	}
	return compile(dir, out, ".", "-modfile="+filepath.Join(cache, "gvisor.mod"))
}

// compile builds a program with the flags of a release.
func compile(dir, out, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, flags...)
	return toolchain(dir, static(), append(args, pkg)...)
}

// static is the environment of a build without the C library.
func static() []string { return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly") }

func toolchain(dir string, env []string, args ...string) error {
	c := exec.Command("go", args...)
	c.Dir, c.Env = dir, env
	if said, err := c.CombinedOutput(); err != nil {
		last := strings.TrimSpace(string(said))
		if len(last) > 500 {
			last = "... " + last[len(last)-500:]
		}
		return fmt.Errorf("go %s in %s: %w: %s", strings.Join(args, " "), dir, err, last)
	}
	return nil
}

// keep copies programs to the directory named by the digest of their content, unless it
// exists.
func keep(cache string, programs map[string]string) (string, error) {
	sum := sha256.New()
	for _, name := range []string{Runsc, Guest} {
		f, err := os.Open(programs[name])
		if err != nil {
			return "", err
		}
		each := sha256.New()
		_, err = io.Copy(each, f)
		f.Close()
		if err != nil {
			return "", err
		}
		sum.Write(each.Sum(nil))
	}
	dir := filepath.Join(cache, fmt.Sprintf("tools-%x", sum.Sum(nil)))
	now := time.Now()
	if os.Chtimes(dir, now, now) == nil {
		return dir, nil
	}
	aside, err := os.MkdirTemp(cache, "aside-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(aside)
	for name, from := range programs {
		to := filepath.Join(aside, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", err
		}
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	if err := os.Chmod(aside, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(aside, dir)
}

// prune removes builds that no test has used for a long time. The caller has the lock.
func prune(cache, used string) {
	dirs, _ := filepath.Glob(filepath.Join(cache, "*-*"))
	for _, dir := range dirs {
		most := unused
		if strings.HasPrefix(filepath.Base(dir), "build-") {
			most = unusedBuild
		}
		if fi, err := os.Stat(dir); err == nil && dir != used && time.Since(fi.ModTime()) > most {
			os.RemoveAll(dir)
		}
	}
}
