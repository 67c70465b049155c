package build

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
)

// Bounds of an upload.
const (
	// MaxArchive is the maximum size of an archive, uncompressed and compressed, in bytes.
	MaxArchive = 1 << 30
	maxEntries = 100_000
	maxPath    = 1 << 10
	maxDepth   = 128
	// maxKept bounds the uploads of an account, in bytes; the least recently used are removed.
	maxKept = 4 << 30
)

// FilesConfig is what Files needs.
type FilesConfig struct {
	// Dir is made with mode 0700 if it is missing.
	Dir string
	// CheckSpace refuses a write of so many bytes that the disk or the account has no space for.
	CheckSpace func(ctx context.Context, account, what string, bytes int64) error
}

// Files keeps uploaded files, by account and name. Its methods may be called from several goroutines.
type Files struct {
	cfg FilesConfig
	mu  sync.Mutex // held while uploads appear and go
}

const (
	dataName, indexName = "data", "index.json"
	aside               = "new-"
)

// OpenFiles opens the store and removes what was left half-written.
func OpenFiles(cfg FilesConfig) (*Files, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "files of builds: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(cfg.Dir, aside+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "files of builds: %w", err)
	}
	return &Files{cfg: cfg}, nil
}

// entry is a file of an upload.
type entry struct {
	Path string `json:"path"` // relative and clean
	Mode uint32 `json:"mode"` // permissions
	Dir  bool   `json:"dir,omitempty"`
	Link string `json:"link,omitempty"` // the target of a symbolic link
	// Offset and Size say where the contents of a regular file are in the data.
	Offset int64   `json:"offset,omitempty"`
	Size   int64   `json:"size,omitempty"`
	SHA256 string  `json:"sha256,omitempty"`
	here   *string // the contents of a file that is in no upload
}

func validName(name string) error {
	if len(name) != 2*sha256.Size || strings.Trim(name, "0123456789abcdef") != "" {
		return api.Errorf(api.KindInvalid, "%.80q is not the SHA-256 of files", name)
	}
	return nil
}

// of returns the directory of an account's uploads.
func (f *Files) of(account string) string {
	sum := sha256.Sum256([]byte(account))
	return filepath.Join(f.cfg.Dir, hex.EncodeToString(sum[:8]))
}

// Has reports whether the caller's account has uploaded files of this name.
func (f *Files) Has(ctx context.Context, name string) (bool, error) {
	if err := validName(name); err != nil {
		return false, err
	}
	_, err := os.Stat(filepath.Join(f.of(api.PrincipalOf(ctx).Account), name))
	return err == nil, nil
}

// Put stores the files of a tar archive, which may be compressed with gzip, for the caller's account. The
// archive is read to its end. An upload of the same name is replaced. If name is empty, it is the digest of what is stored. Put returns the name.
//
// Errors: KindInvalid for an archive that is malformed, hostile or too large.
func (f *Files) Put(ctx context.Context, name string, archive io.Reader) (string, error) {
	if name != "" {
		if err := validName(name); err != nil {
			return "", err
		}
	}
	account := api.PrincipalOf(ctx).Account
	dir, err := os.MkdirTemp(f.cfg.Dir, aside)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "store files of a build: %w", err)
	}
	defer os.RemoveAll(dir) // a no-op once renamed
	data, err := os.OpenFile(filepath.Join(dir, dataName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "store files of a build: %w", err)
	}
	defer data.Close()
	entries, err := f.read(ctx, account, archive, data)
	if err != nil {
		return "", err
	}
	index, err := json.Marshal(entries)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, indexName), index, 0o600)
	}
	if err == nil {
		err = data.Close()
	}
	if err != nil {
		return "", api.Errorf(api.KindInternal, "store files of a build: %w", err)
	}
	if name == "" {
		sum := sha256.Sum256(index)
		name = hex.EncodeToString(sum[:])
	}
	if err := f.place(account, name, dir); err != nil {
		return "", api.Errorf(api.KindInternal, "store files of a build: %w", err)
	}
	return name, nil
}

// place gives a complete upload its name, and removes those that are too many.
func (f *Files) place(account, name, dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := filepath.Join(f.of(account), name)
	if err := os.MkdirAll(f.of(account), 0o700); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	all, err := os.ReadDir(f.of(account))
	if err != nil {
		return err
	}
	for {
		var sum int64
		var oldest string
		var since time.Time
		for _, d := range all {
			at := filepath.Join(f.of(account), d.Name())
			fi, err := os.Stat(filepath.Join(at, dataName))
			if err != nil {
				continue
			}
			if sum += fi.Size(); at != to && (oldest == "" || fi.ModTime().Before(since)) {
				oldest, since = at, fi.ModTime()
			}
		}
		if sum <= maxKept || oldest == "" {
			return nil
		}
		if err := os.RemoveAll(oldest); err != nil {
			return err
		}
	}
}

// bounded fails after a number of bytes, and when its context ends.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, api.Errorf(api.KindInvalid, "the files of the build have more than %d bytes", int64(MaxArchive)).
			WithHint("list what the build does not need in .dockerignore")
	}
	return n, err
}

// read reads an archive, and writes the contents of its files to data.
func (f *Files) read(ctx context.Context, account string, archive io.Reader, data io.Writer) ([]entry, error) {
	in := bufio.NewReader(&bounded{ctx, archive, MaxArchive})
	var plain io.Reader = in
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "the archive of files is malformed: %w", err)
		}
		plain = &bounded{ctx, z, MaxArchive}
	}
	var entries []entry
	known := map[string]int{}
	var offset int64
	for tr := tar.NewReader(plain); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var e entry
		if err == nil {
			e, err = checkEntry(h, entries, known)
		}
		if err == nil && len(entries) == maxEntries {
			err = api.Errorf(api.KindInvalid, "the build has more than %d files", maxEntries).WithHint("list what the build does not need in .dockerignore")
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			if err = f.cfg.CheckSpace(ctx, account, "files of a build", h.Size); err != nil {
				return nil, err
			}
			sum := sha256.New()
			e.Offset = offset
			if e.Size, err = io.Copy(io.MultiWriter(data, sum), tr); err == nil && e.Size != h.Size {
				err = io.ErrUnexpectedEOF
			}
			offset += e.Size
			e.SHA256 = hex.EncodeToString(sum.Sum(nil))
		}
		if err != nil {
			if api.KindOf(err) == api.KindInternal {
				err = api.Errorf(api.KindInvalid, "the archive of files is malformed: %w", err)
			}
			return nil, err
		}
		if e.Path == "." {
			continue
		}
		known[e.Path] = len(entries)
		entries = append(entries, e)
	}
	_, err := io.Copy(io.Discard, in)
	return entries, err
}

// checkEntry refuses an entry that is not an ordinary file, directory or link below the root of the
// archive. known has the indexes of entries by their paths.
func checkEntry(h *tar.Header, entries []entry, known map[string]int) (entry, error) {
	bad := func(why string) (entry, error) {
		return entry{}, api.Errorf(api.KindInvalid, "the files of the build have %.200q: %s", h.Name, why)
	}
	name := path.Clean(strings.TrimPrefix(h.Name, "./"))
	switch {
	case h.Name == "" || strings.HasPrefix(h.Name, "/"):
		return bad("the path is not relative")
	case strings.ContainsRune(h.Name, 0) || len(h.Name) > maxPath || strings.Count(name, "/") >= maxDepth:
		return bad("the path is too long, too deep or has a NUL byte")
	case strings.Contains("/"+h.Name+"/", "/../"):
		return bad("the path has a component ..")
	}
	if _, twice := known[name]; twice {
		return bad("it is there twice")
	}
	for up := path.Dir(name); up != "."; up = path.Dir(up) {
		if i, ok := known[up]; ok && !entries[i].Dir {
			return bad("it is below something that is not a directory")
		}
	}
	e := entry{Path: name, Mode: uint32(h.Mode) & 0o777}
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		e.Dir = true
	case tar.TypeSymlink:
		if e.Link = h.Linkname; e.Link == "" || len(e.Link) > maxPath || strings.ContainsRune(e.Link, 0) {
			return bad("the target of the link is empty, too long or has a NUL byte")
		}
	case tar.TypeLink: // another name of an earlier file
		i, ok := known[path.Clean(strings.TrimPrefix(h.Linkname, "./"))]
		if !ok || entries[i].Dir || entries[i].Link != "" {
			return bad("it is a hard link to no earlier file of the archive")
		}
		first := entries[i]
		first.Path = name
		return first, nil
	default:
		return bad("it is not a file, a directory or a link")
	}
	return e, nil
}

// upload is an open upload.
type upload struct {
	entries []entry
	data    *os.File
}

// open opens an upload of an account. The caller closes data. The upload may be removed meanwhile.
func (f *Files) open(account, name string) (*upload, error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(f.of(account), name)
	f.mu.Lock()
	defer f.mu.Unlock()
	index, err := os.ReadFile(filepath.Join(dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "the files %.12s of the build are not here", name).WithHint("upload them again")
	}
	u := &upload{}
	if err == nil {
		err = json.Unmarshal(index, &u.entries)
	}
	if err == nil {
		u.data, err = os.Open(filepath.Join(dir, dataName))
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "files of a build: %w", err)
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(dir, dataName), now, now) // best effort: it is the order of removal
	return u, nil
}

// content returns the contents of a regular file.
func (u *upload) content(e entry) io.Reader {
	if e.here != nil {
		return strings.NewReader(*e.here)
	}
	return io.NewSectionReader(u.data, e.Offset, e.Size)
}

// archive reports whether a file begins as a tar archive, or as a compressed one may: gzip, bzip2 or xz.
func (u *upload) archive(e entry) bool {
	head := make([]byte, 262)
	n, _ := io.ReadFull(u.content(e), head)
	head = head[:n]
	for _, magic := range []string{"\x1f\x8b", "BZh", "\xfd7zXZ\x00"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return n == len(head) && bytes.HasSuffix(head, []byte("ustar"))
}
