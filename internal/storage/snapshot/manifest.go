package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	// maxManifest bounds a manifest while it is read, in bytes.
	maxManifest = 1 << 20
	// maxFiles bounds the files of one snapshot, maxName their names, in bytes.
	maxFiles = 64
	maxName  = 128
)

// manifest is what a snapshot's directory says of itself.
type manifest struct {
	Version  int          `json:"version"`
	Snapshot api.Snapshot `json:"snapshot"`
	Files    []file       `json:"files"`
}

// file is one file of a snapshot.
type file struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// damage is what is wrong with a snapshot itself, as opposed to a failure to look.
type damage struct{ why string }

func (d *damage) Error() string { return d.why }

func damaged(format string, args ...any) error { return &damage{fmt.Sprintf(format, args...)} }

// fileName reports whether a name can be that of a snapshot's file.
func fileName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' || name == manifestName {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// parseManifest reads a manifest. It is the host's own file, but disks fail, and
// nothing that is not understood is used.
func parseManifest(r io.Reader) (m manifest, err error) {
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return m, err
	}
	if len(b) > maxManifest {
		return m, damaged("its manifest is longer than %d bytes", maxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, damaged("cannot read its manifest: %.200s", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return m, damaged("its manifest has trailing data")
	}
	if m.Version != manifestVersion {
		return m, damaged("its manifest has version %d; this build supports version %d", m.Version, manifestVersion)
	}
	if len(m.Files) > maxFiles {
		return m, damaged("its manifest lists %d files; the maximum is %d", len(m.Files), maxFiles)
	}
	for i, f := range m.Files {
		if !fileName(f.Name) || f.Bytes < 0 || len(f.SHA256) != 2*sha256.Size {
			return m, damaged("its manifest has an invalid entry for file %d", i)
		}
		if i > 0 && m.Files[i-1].Name >= f.Name {
			return m, damaged("its manifest lists files out of order")
		}
	}
	return m, nil
}

// readManifest reads the manifest of a snapshot's directory.
func readManifest(dir *os.File) (manifest, error) {
	f, _, err := openIn(dir, manifestName)
	if err != nil {
		return manifest{}, err
	}
	defer f.Close()
	return parseManifest(f)
}

// openIn opens a regular file of a directory. A symbolic link is never followed.
func openIn(dir *os.File, name string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, st, damaged("%s is missing", name)
	}
	if err == unix.ELOOP {
		return nil, st, damaged("%s is a link", name)
	}
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, st, err
	}
	// Sandboxes and other snapshots have links to the memory that they refer to.
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 && name == manifestName {
		f.Close()
		return nil, st, damaged("%s is not a regular file, or has a second link", name)
	}
	return f, st, nil
}

// listFiles returns the names in a snapshot's directory but the manifest's, sorted.
func listFiles(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	all, err := dir.Readdirnames(maxFiles + 2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(n string) bool { return n == manifestName })
	if len(names) > maxFiles {
		return nil, damaged("it contains more than %d files", maxFiles)
	}
	for _, n := range names {
		if !fileName(n) {
			return nil, damaged("it contains an unexpected file: %.64q", n)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names, nil
}

// sum returns the digest of a file of a known length.
func sum(ctx context.Context, f *os.File, size int64) (string, error) {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if total += int64(n); total > size {
			return "", damaged("%s is larger than %d bytes", f.Name(), size)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
	}
	if total != size {
		return "", damaged("%s has %d bytes, expected %d", f.Name(), total, size)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
