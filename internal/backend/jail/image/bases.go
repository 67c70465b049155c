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
// from it. A file lives as long as one of them does. The image of a fork also refers to the
// memory of its parent, which is not on the disk.
type Bases struct {
	Own    string   `json:"own"`
	Others []string `json:"others"`
	// Holders are the sandboxes in whose memory some of the others are.
	Holders map[string]api.SandboxID `json:"holders,omitempty"`
}

// Names are the names of all, that of the image's own first.
func (b Bases) Names() []string { return append([]string{b.Own}, b.Others...) }

var validBase = regexp.MustCompile(`^[0-9a-f]{16}$`)

// NewBase makes a name.
func NewBase() string {
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
	for name, id := range b.Holders {
		if !slices.Contains(b.Others, name) || !id.Valid() {
			return errors.New("the image has an invalid holder of a base")
		}
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

// writeBases completes an image: it writes what the image refers to, and links what is on the
// disk from the directory of the sandbox that was saved. names and fds are what its kernel has
// said, which is not trusted.
func (m Memory) writeBases(dir string, names []string, fds []int) (b Bases, held Held, err error) {
	b, held = Bases{Own: NewBase(), Others: slices.Clone(names), Holders: map[string]api.SandboxID{}}, Held{}
	defer func() {
		if err != nil {
			held.Close()
		}
	}()
	if err := b.check(); err != nil {
		return b, held, err
	}
	if len(names) != len(fds) {
		return b, held, errors.New("its kernel has sent too few files")
	}
	holders, err := Holders(m.Bases)
	if err != nil {
		return b, held, err
	}
	if m.Freeze != "" {
		if holders == nil {
			holders = map[string]api.SandboxID{}
		}
		holders[m.Freeze] = m.ID
	}
	for i, name := range names {
		if holder, ok := holders[name]; ok {
			if held[name], err = readOnly(fds[i]); err != nil {
				return b, held, err
			}
			b.Holders[name] = holder
			continue
		}
		// A name that the sandbox does not have has no file.
		if err := linkFile(filepath.Join(m.Bases, BaseFile(name)), filepath.Join(dir, BaseFile(name))); err != nil {
			return b, held, err
		}
	}
	text, err := json.Marshal(b)
	if err == nil {
		err = writeNew(dir, basesName, text)
	}
	return b, held, err
}

// Keep makes a directory with the bases of an image, for a sandbox that is restored from it. pages is
// the file with the image's own. The caller removes the directory, also after an error.
func Keep(dir, pages string, b Bases, into string) error {
	err := os.Mkdir(into, 0o700)
	for i, name := range b.Names() {
		if err != nil {
			break
		}
		if holder, ok := b.Holders[name]; ok {
			err = writeNew(into, holderFile(name), []byte(holder))
			continue
		}
		from := BaseFile(name)
		if i == 0 {
			from = pages
		}
		err = linkFile(filepath.Join(dir, from), filepath.Join(into, BaseFile(name)))
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "the bases of the image: %w", err)
	}
	return nil
}

// Files are the names of those that are files of the image, apart from its own.
func (b Bases) Files() (names []string) {
	for _, name := range b.Others {
		if _, held := b.Holders[name]; !held {
			names = append(names, BaseFile(name))
		}
	}
	return names
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
