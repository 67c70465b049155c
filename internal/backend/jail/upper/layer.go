package upper

import (
	"context"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/beneath"
	"hortus.dev/internal/storage/layer/erofs"
)

const (
	// maxLayerEntries and maxLayerText are the maximum number of entries of a layer, and of bytes of
	// their names and links, all of which are in memory while it is written.
	maxLayerEntries = 100_000
	maxLayerText    = 16 << 20
)

// ErrNoLayer is the error of a tree that can be saved, but not as a layer: it has too many entries, or
// holes that a layer cannot have.
var ErrNoLayer = errors.New("the files cannot be a layer")

// LayerInfo describes a layer.
type LayerInfo struct {
	Entries int
	Bytes   int64 // of the image
}

// WriteLayer writes a tree as an EROFS image into an empty file: a layer for overlays, whose owners are ids
// inside. Nothing may change the tree meanwhile. Options.Bytes is the maximum size of all files, holes
// included.
//
// It returns ErrNoLayer, a *RefusedError if the tree cannot be saved at all, the error of ctx, or that of f.
func WriteLayer(ctx context.Context, f *os.File, t Tree, o Options) (LayerInfo, error) {
	l := newLayerer(t, o)
	if err := walk(ctx, t, &o, l); err != nil {
		return LayerInfo{}, err
	}
	return l.write(ctx, f)
}

// WriteLayerSince is WriteLayer for what has changed in a tree without Below since it was seen; for all of it if was is nil.
// With the layers that were written before, it is the same as a layer of all. It returns what the tree is now; nil if that
// is too large to be remembered. If nothing has changed, nothing is written.
//
// It also returns ErrNoLayer if the change cannot be a layer.
func WriteLayerSince(ctx context.Context, f *os.File, t Tree, o Options, was *Seen) (info LayerInfo, now *Seen, err error) {
	l := newLayerer(t, o)
	now, changes, err := walkSince(ctx, t, &o, was, l)
	if errors.Is(err, errForgot) {
		err = ErrNoLayer
	}
	if err != nil || was != nil && changes == 0 {
		return info, now, err
	}
	info, err = l.write(ctx, f)
	return info, now, err
}

func newLayerer(t Tree, o Options) *layerer {
	return &layerer{tops: append([]int{t.Dir}, t.Below...), entries: maxLayerEntries, text: maxLayerText, kept: maxLayerText, bytes: o.Bytes, files: map[string]erofs.Entry{}}
}

func (l *layerer) write(ctx context.Context, f *os.File) (LayerInfo, error) {
	info, err := l.b.Write(ctx, f)
	return LayerInfo{info.Entries, info.Image}, err
}

// layerer describes a tree to the writer of an image.
type layerer struct {
	b       *erofs.Builder
	tops    []int // of the directories that the entries come from
	dirs    []erofs.Dir
	files   map[string]erofs.Entry // those that may get more names, by their paths
	entries int                    // that may still be added
	text    int
	bytes   int64
	kept    int64 // bytes of small files that may still be kept in memory
}

// count counts an entry with a name, and a link's target.
func (l *layerer) count(name, target string) error {
	l.entries--
	l.text -= len(name) + len(target)
	if l.entries < 0 || l.text < 0 {
		return ErrNoLayer
	}
	return nil
}

func (m meta) layer() erofs.Meta {
	return erofs.Meta{Mode: m.mode, UID: m.uid, GID: m.gid, Sec: m.sec, Nsec: int64(m.nsec)}
}

func (l *layerer) in() erofs.Dir { return l.dirs[len(l.dirs)-1] }

func (l *layerer) tree(_ string, m meta) error {
	l.b = erofs.NewBuilder(m.layer())
	l.dirs = append(l.dirs, l.b.Root())
	return nil
}

func (l *layerer) dir(name string, m meta, opaque bool) error {
	as := m.layer()
	if opaque {
		as.Attr, as.Value = opaqueMark, "y"
	}
	l.dirs = append(l.dirs, l.in().Dir(name, as))
	return l.count(name, "")
}

func (l *layerer) up() error {
	l.dirs = l.dirs[:len(l.dirs)-1]
	return nil
}

func (l *layerer) file(name string, m meta, f content) error {
	if l.bytes -= f.size; l.bytes < 0 {
		return ErrNoLayer
	}
	if n := int64(len(f.data)); n == f.size && n > 0 && n <= l.kept {
		l.kept -= n
		l.keep(f.again, l.in().Small(name, m.layer(), f.data))
		return l.count(name, "")
	}
	top, path := l.tops[f.source], strings.Join(f.path, "/")
	l.keep(f.again, l.in().File(name, m.layer(), f.size, func() (int, error) {
		return beneath.Open(top, path, unix.O_RDONLY)
	}))
	return l.count(name, path)
}

// keep keeps an entry that may get more names.
func (l *layerer) keep(e again, entry erofs.Entry) {
	if e != "" {
		l.files[string(e)] = entry
	}
}

func (l *layerer) hard(name, first string) error {
	l.in().Link(name, l.files[first])
	return l.count(name, "")
}

func (l *layerer) symlink(name string, m meta, target string, e again) error {
	entry, err := l.in().Symlink(name, m.layer(), target)
	l.keep(e, entry)
	return errors.Join(err, l.count(name, target))
}

func (l *layerer) special(rec byte, name string, m meta, e again) error {
	as := m.layer()
	as.Mode |= unix.S_IFIFO
	if rec == recSocket {
		as.Mode = m.mode | unix.S_IFSOCK
	}
	l.keep(e, l.in().Special(name, as))
	return l.count(name, "")
}

func (l *layerer) whiteout(name string) error {
	l.in().Special(name, erofs.Meta{Mode: unix.S_IFCHR})
	return l.count(name, "")
}
