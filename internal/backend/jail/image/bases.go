package image

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// basesName is the file of a memory image that says what its memory refers to.
const basesName = "bases.json"

// MaxBases is the maximum number of bases of an image. Kernels refer to fewer: they copy what
// they refer to in others into a new image.
const MaxBases = 12

// Bases are the files that the memory of an image refers to: that with its own pages, and
// those of the images that it was made from. They never change, and are shared by all
// sandboxes that were restored from them. Each is named by a random text.
//
// An image has hard links to them, and so has the directory of a sandbox that was restored
// from it. A file lives as long as one of them does.
type Bases struct {
	Own    string   `json:"own"`
	Others []string `json:"others"`
}

// Names are the names of all, that of the image's own first.
func (b Bases) Names() []string { return append([]string{b.Own}, b.Others...) }

var validBase = regexp.MustCompile(`^[0-9a-f]{16}$`)

// newBase makes a name.
func newBase() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// BaseFile is the name of the file of a base, in an image and in the directory of a sandbox.
func BaseFile(name string) string { return "base-" + name + ".img" }

// check refuses names that are malformed, repeated or too many.
func (b Bases) check() error {
	if len(b.Others) > MaxBases {
		return errors.New("the image has too many bases")
	}
	seen := map[string]bool{}
	for _, n := range b.Names() {
		if !validBase.MatchString(n) || seen[n] {
			return errors.New("the image has a base with an invalid name")
		}
		seen[n] = true
	}
	return nil
}

// ReadBases reads what an image refers to. It returns false for an image whose memory is copied
// when it is restored.
func ReadBases(dir string) (b Bases, ok bool, err error) {
	text, err := readSmall(dir, basesName)
	if errors.Is(err, fs.ErrNotExist) {
		return b, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return b, false, api.Errorf(api.KindConflict, "the image's %s cannot be read: %w", basesName, err)
	}
	return b, true, nil
}

// writeBases completes an image: it writes what the image refers to, and links the others from
// the directory of the sandbox that was saved. kernel are the names that its kernel has said,
// which is not trusted.
func writeBases(dir, from string, kernel []string) error {
	b := Bases{Own: newBase(), Others: slices.Clone(kernel)}
	if err := b.check(); err != nil {
		return err
	}
	for _, name := range b.Others {
		// A name that the sandbox does not have has no file.
		if err := linkFile(filepath.Join(from, BaseFile(name)), filepath.Join(dir, BaseFile(name))); err != nil {
			return err
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return writeNew(dir, basesName, text)
}

// Keep makes a directory with the bases of an image, for a sandbox that is restored from it. pages is
// the file with the image's own. The caller removes the directory, also after an error.
func Keep(dir, pages string, b Bases, into string) error {
	if err := os.Mkdir(into, 0o700); err != nil {
		return api.Errorf(api.KindInternal, "the bases of the image: %w", err)
	}
	for i, name := range b.Names() {
		from := BaseFile(name)
		if i == 0 {
			from = pages
		}
		if err := linkFile(filepath.Join(dir, from), filepath.Join(into, BaseFile(name))); err != nil {
			return api.Errorf(api.KindInternal, "the bases of the image: %w", err)
		}
	}
	return nil
}

// linkFile gives a regular file another name.
func linkFile(from, to string) error {
	fd, err := unix.Open(from, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: from, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: from, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &os.PathError{Op: "link", Path: from, Err: errors.New("it is not a regular file")}
	}
	return os.Link(from, to) // does not follow a link
}
