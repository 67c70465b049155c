package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"hortus.dev/api"
	"hortus.dev/internal/backend/gvisor"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/internal/platform/version"
)

// toolset is where the programs of gVisor's sandboxes lie, and what they are.
type toolset struct {
	dir            string
	version, guest string
}

// unpackTools puts the programs that gVisor's sandboxes run into a directory of
// their own below dir, where they are files that every sandbox maps: their pages are
// in memory once. A directory is named by what is in it, is made aside and renamed,
// and stays for the next daemon; those of other builds are removed, but for those that
// are in use: by sandboxes that an earlier daemon left running.
//
// Errors are those of runscBinary.
func unpackTools(dir string, guest *os.File, runsc string, used map[string]bool) (toolset, error) {
	var t toolset
	if runsc == "" && len(embedded.Runsc()) == 0 {
		_, _, err := runscBinary("")
		return t, err
	}
	var err error
	if t.guest, err = digest(guest); err != nil {
		return t, api.Errorf(api.KindInternal, "read the guest: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	var f *os.File
	var sum string
	if runsc != "" {
		if f, t.version, err = runscBinary(runsc); err != nil {
			return t, err
		}
		defer f.Close()
		sum, err = digest(f)
	} else {
		t.version = version.Describe().GVisor
		sum, err = embeddedDigest(dir)
	}
	if err != nil {
		return t, api.Errorf(api.KindInternal, "read runsc: %w", err)
	}
	name := "gvisor-" + sum[:16] + "-" + t.guest[:16]
	t.dir = filepath.Join(dir, name)
	// Images are restored by the very program that made them, whatever it calls itself.
	t.version += " " + sum[:12]
	if whole(t.dir) {
		return t, nil
	}
	if f == nil {
		if f, _, err = runscBinary(""); err != nil {
			return t, err
		}
		defer f.Close()
	}
	return t, unpack(dir, name, f, guest, used)
}

// embeddedDigest is the digest of the embedded runsc. It is taken once for each build
// that a data directory meets, and noted there: it takes tens of milliseconds.
func embeddedDigest(dir string) (string, error) {
	note := filepath.Join(dir, "runsc-of-"+version.Describe().Build)
	if b, err := os.ReadFile(note); err == nil && len(b) == 2*sha256.Size {
		return string(b), nil
	}
	h := sha256.Sum256(embedded.Runsc())
	sum := hex.EncodeToString(h[:])
	old, err := filepath.Glob(filepath.Join(dir, "runsc-of-*"))
	if err != nil {
		return "", err
	}
	for _, p := range old {
		os.Remove(p)
	}
	return sum, os.WriteFile(note, []byte(sum), 0o600)
}

// whole says whether a directory of tools is ours alone and has both programs.
func whole(dir string) bool {
	for p, mode := range map[string]fs.FileMode{
		"": fs.ModeDir | 0o755, keeper.GuestDir: fs.ModeDir | 0o755,
		gvisor.RunscName: 0o555, filepath.Join(keeper.GuestDir, gvisor.GuestName): 0o555,
	} {
		fi, err := os.Lstat(filepath.Join(dir, p))
		if err != nil || fi.Mode() != mode {
			return false
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			return false
		}
	}
	return true
}

func unpack(dir, name string, runsc, guest *os.File, used map[string]bool) (err error) {
	old, err := os.ReadDir(dir)
	if err != nil {
		return api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	for _, e := range old {
		if strings.HasPrefix(e.Name(), "gvisor-") && (!used[e.Name()] || e.Name() == name) || strings.HasPrefix(e.Name(), "new-") {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	fresh, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(fresh)
			err = api.Errorf(api.KindInternal, "unpack gVisor: %w", err)
		}
	}()
	inside := filepath.Join(fresh, keeper.GuestDir)
	if err := os.Mkdir(inside, 0o700); err != nil {
		return err
	}
	for path, src := range map[string]*os.File{filepath.Join(fresh, gvisor.RunscName): runsc, filepath.Join(inside, gvisor.GuestName): guest} {
		dst, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
		if err != nil {
			return err
		}
		_, err = io.Copy(dst, io.NewSectionReader(src, 0, 1<<40))
		if err == nil {
			err = dst.Sync()
		}
		if err == nil {
			err = dst.Chmod(0o555)
		}
		if err = errors.Join(err, dst.Close()); err != nil {
			return err
		}
	}
	for _, d := range []string{inside, fresh} {
		if err := os.Chmod(d, 0o755); err != nil { // for the sandboxes' ids

			return err
		}
	}
	return os.Rename(fresh, filepath.Join(dir, name))
}

func digest(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<40)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
