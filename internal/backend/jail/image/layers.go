package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/storage/beneath"
)

// layersName is the file of an image of files that says on which layers they are.
const layersName = "layers.json"

// MaxLayers is the maximum number of layers of an image. The next fork makes one of all of them.
const MaxLayers = 12

// Layer is a file with what a sandbox had written when it was forked, as an EROFS image. It never changes, and is
// shared by all that came from that fork. It is named by a random text.
//
// The image of the fork has a hard link to it, and so has the directory of each sandbox that was started from
// it. The file lives as long as one of them does.
type Layer struct {
	Name string `json:"name"`
	// Bytes and Files are what it takes of the disk of a sandbox.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
}

// Layers are those of an image or a sandbox, the top one first.
type Layers []Layer

// Size is what they take of the disk of a sandbox together.
func (l Layers) Size() (bytes, files int64) {
	for _, x := range l {
		bytes, files = bytes+x.Bytes, files+x.Files
	}
	return bytes, files
}

// LayerFile is the name of the file of a layer, in an image and in the directory of a sandbox.
func LayerFile(name string) string { return "layer-" + name + ".img" }

// ReadLayers reads on which layers an image or a sandbox is, whose directory it is.
func ReadLayers(dir string) (l Layers, err error) {
	text, err := readSmall(dir, layersName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, api.Errorf(api.KindConflict, "%s cannot be read: %w", layersName, err)
	}
	return l, nil
}

func (l Layers) check() error {
	if len(l) > MaxLayers {
		return errors.New("there are too many layers")
	}
	seen := map[string]bool{}
	for _, x := range l {
		if !validBase.MatchString(x.Name) || seen[x.Name] || x.Bytes < 0 || x.Files < 0 {
			return errors.New("a layer has an invalid name or size")
		}
		seen[x.Name] = true
	}
	return nil
}

// KeepLayers makes a directory with the layers of an image, for a sandbox that is started from it. The caller
// removes the directory, also after an error.
func KeepLayers(dir, into string, l Layers) error {
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	if err := LinkLayers(dir, into, l); err != nil {
		return err
	}
	return WriteLayers(into, l)
}

// LinkLayers links layers of one directory into another.
func LinkLayers(from, into string, l Layers) error {
	for _, x := range l {
		err := linkFile(filepath.Join(from, LayerFile(x.Name)), filepath.Join(into, LayerFile(x.Name)))
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteLayers says in a directory on which layers it is.
func WriteLayers(dir string, l Layers) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return writeNew(dir, layersName, text)
}

// Tree is what a sandbox wrote over its root, and what is below that: see upper.Tree. The caller closes Below and Under.
type Tree struct {
	Disk         int // the sandbox's disk
	Below, Under []int
}

// open opens the upper layer of the root.
func (t Tree) open() (upper.Tree, error) {
	dir, err := beneath.OpenDir(t.Disk, initns.UpperDir)
	return upper.Tree{Name: upper.Root, Dir: dir, Below: t.Below, Under: t.Under}, err
}

// AddLayer writes what a sandbox wrote over its root into dir as a new layer. An error leaves nothing. Without Below, what
// was seen is left out, and it returns what is there now: see upper.WriteLayerSince. If nothing has changed, there
// is no layer, and its name is empty.
func AddLayer(ctx context.Context, dir string, t Tree, o upper.Options, was *upper.Seen) (l Layer, now *upper.Seen, err error) {
	tree, err := t.open()
	if err != nil {
		return l, nil, err
	}
	defer unix.Close(tree.Dir)
	l.Name = NewBase()
	f, err := os.OpenFile(filepath.Join(dir, LayerFile(l.Name)), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o400)
	if err != nil {
		return l, nil, err
	}
	var info upper.LayerInfo
	if len(t.Below) > 0 {
		info, err = upper.WriteLayer(ctx, f, tree, o)
	} else {
		info, now, err = upper.WriteLayerSince(ctx, f, tree, o, was)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return l, nil, errors.Join(err, os.Remove(f.Name()))
	}
	if info.Bytes == 0 {
		return Layer{}, now, os.Remove(f.Name())
	}
	l.Bytes, l.Files = info.Bytes, int64(info.Entries)
	return l, now, nil
}

// RemoveLayers removes the layers from a directory that are not among those.
func RemoveLayers(dir string, but Layers) error {
	paths, err := filepath.Glob(filepath.Join(dir, LayerFile("*")))
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, x := range but {
		keep[LayerFile(x.Name)] = true
	}
	for _, p := range paths {
		if !keep[filepath.Base(p)] {
			err = errors.Join(err, os.Remove(p))
		}
	}
	return err
}

// WriteNothing writes into dir that the sandbox wrote nothing over its layers.
func WriteNothing(dir string, t Tree, o upper.Options) error {
	tree, err := t.open()
	if err != nil {
		return err
	}
	defer unix.Close(tree.Dir)
	return writeFile(dir, func(f *os.File) error { return upper.WriteNothing(f, []upper.Tree{tree}, o) })
}
