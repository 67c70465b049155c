package oci

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/source"
	"hortus.dev/internal/storage/storedir"
)

// maxRecord is the maximum size of a record, in bytes.
const maxRecord = 1 << 20

// Config configures Images. Dir and Layers must be set.
type Config struct {
	// Dir contains the records.
	Dir    string
	Layers *layer.Store
	// Source says how images are read.
	Source source.Config
	// Sudo is the executable that is the sandbox's sudo; nil for none. SudoKey names its
	// content.
	Sudo    *os.File
	SudoKey string
	// Limits of each layer; zero values are defaults.
	MaxLayerBytes int64
	MaxEntries    int
	// CheckIsolation refuses what names no backend. Without it no template has a default isolation.
	CheckIsolation func(name string) error
	Now            func() time.Time
	Logger         *slog.Logger
}

// Images are the images of a data directory. Its methods may be called from several goroutines.
type Images struct {
	cfg Config

	mu      sync.Mutex
	records map[string]api.Image     // by ID
	pulls   map[string]chan struct{} // pulls that run, by ID
}

// Open reads the records. A record that cannot be read is ignored, with a log entry: its layers
// are then collected, and the image can be pulled again.
func Open(cfg Config) (*Images, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Images{cfg: cfg, records: map[string]api.Image{}, pulls: map[string]chan struct{}{}}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "images: %w", err)
	}
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "images: %w", err)
	}
	for _, e := range entries {
		p := filepath.Join(cfg.Dir, e.Name())
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok { // a process died while it wrote one
			if strings.HasPrefix(e.Name(), "new-") {
				os.Remove(p)
			}
			continue
		}
		img, err := readRecord(p)
		if err == nil && img.ID != id {
			err = errors.New("it has another ID")
		}
		if err != nil {
			cfg.Logger.Error("cannot read the record of an image; it is ignored", "file", p, "error", err)
			continue
		}
		s.records[id] = img
	}
	return s, nil
}

func readRecord(p string) (img api.Image, err error) {
	f, err := os.Open(p)
	if err != nil {
		return img, err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&img); err != nil {
		return img, err
	}
	for _, d := range img.Layers {
		if !layer.Digest(d).Valid() {
			return img, errors.New("a layer digest is malformed")
		}
	}
	if len(img.Layers) == 0 {
		return img, errors.New("it has no layers")
	}
	return img, nil
}

// store writes a record. The caller holds mu: the order of records on disk is that in memory.
func (s *Images) store(img api.Image) error {
	b, err := json.MarshalIndent(img, "", "\t")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.cfg.Dir, "new-")
	if err != nil {
		return api.Errorf(api.KindInternal, "store the record of an image: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.file(img.ID))
	}
	if err != nil {
		os.Remove(f.Name())
		return api.Errorf(api.KindInternal, "store the record of an image: %w", err)
	}
	s.records[img.ID] = img
	return storedir.Sync(s.cfg.Dir)
}

func (s *Images) file(id string) string { return filepath.Join(s.cfg.Dir, id+".json") }

// idOf returns the ID of an image by its complete reference.
func idOf(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return hex.EncodeToString(sum[:6])
}

// List returns the images, templates first, by name and reference.
func (s *Images) List() []api.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]api.Image, 0, len(s.records))
	for _, img := range s.records {
		out = append(out, img)
	}
	slices.SortFunc(out, func(a, b api.Image) int {
		if (a.Name == "") != (b.Name == "") {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reference, b.Reference))
	})
	return out
}

// Find returns an image by the name of its template, its ID or its reference. It fails with
// KindNotFound.
func (s *Images) Find(name string) (api.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if img, ok := s.records[name]; ok {
		return img, nil
	}
	if full, err := source.Canonical(name); err == nil && (source.IsPath(name) || strings.ContainsAny(name, ":/@")) {
		if img, ok := s.records[idOf(full)]; ok {
			return img, nil
		}
	}
	return api.Image{}, api.Errorf(api.KindNotFound, "image %.200q is not on this machine", name).WithHint("list images with hortus template ls")
}

// Layers returns the layers of an image, the lowest first, and notes that it is used. It fails
// with KindNotFound if there is no such image, or if one of its layers is missing.
func (s *Images) Layers(name string) ([]layer.Digest, error) {
	img, err := s.Find(name)
	if err != nil {
		return nil, err
	}
	if missing := s.missing(img); missing != "" {
		return nil, api.Errorf(api.KindNotFound, "layer %s of image %s is missing", missing, img.Reference).
			WithHint("pull it again: hortus template create NAME --from-image %s", img.Reference)
	}
	if s.cfg.Now().Sub(img.UsedAt) > time.Hour { // the garbage collector counts days
		if err := s.touch(img.ID); err != nil {
			s.cfg.Logger.Warn("cannot note the use of an image", "image", img.Reference, "error", err)
		}
	}
	return digests(img), nil
}

func (s *Images) touch(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, ok := s.records[id]
	if !ok {
		return nil
	}
	img.UsedAt = s.cfg.Now().UTC()
	return s.store(img)
}

func digests(img api.Image) []layer.Digest {
	out := make([]layer.Digest, len(img.Layers))
	for i, d := range img.Layers {
		out[i] = layer.Digest(d)
	}
	return out
}

// missing returns a layer of an image that is not in the store.
func (s *Images) missing(img api.Image) layer.Digest {
	for _, d := range digests(img) {
		if !s.cfg.Layers.Has(d) {
			return d
		}
	}
	return ""
}

// Named returns the layers of all images, for the garbage collector.
func (s *Images) Named() []layer.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []layer.Digest
	for _, img := range s.records {
		out = append(out, digests(img)...)
	}
	return out
}

// Programs looks for programs in the layers of an image: at each place of its PATH, as its commands
// would find them. It returns one entry for each that is given, whose path is that in the image.
func (s *Images) Programs(layers []layer.Digest, wanted []api.Tool) ([]api.Tool, error) {
	top, err := s.cfg.Layers.Resolve(layers[len(layers)-1])
	if err != nil {
		return nil, err
	}
	view, _, err := openStack(s.cfg.Layers, layers)
	if err != nil {
		return nil, err
	}
	defer view.close()
	out := make([]api.Tool, len(wanted))
	for i, w := range wanted {
		out[i] = api.Tool{Name: w.Name}
		for _, dir := range filepath.SplitList(top.Path) {
			p := path.Join("/", dir, w.Name)
			mode, f, err := view.lookup(p)
			if f != nil {
				f.Close()
			}
			if err == nil && mode&unix.S_IFMT == unix.S_IFREG && mode&0o111 != 0 {
				out[i] = api.Tool{Name: w.Name, Path: p, Present: true}
				break
			}
		}
	}
	return out, nil
}

// Remove removes the record of an image. Sandboxes that started from it continue; its layers are
// removed by the garbage collector when nothing uses them. It fails with KindNotFound.
func (s *Images) Remove(name string) (api.Image, error) {
	img, err := s.Find(name)
	if err != nil {
		return img, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return img, s.remove(img.ID)
}

func (s *Images) remove(id string) error {
	if err := os.Remove(s.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindInternal, "remove the record of an image: %w", err)
	}
	delete(s.records, id)
	return nil
}

// Unused returns the images without a name that were not used since a time.
func (s *Images) Unused(since time.Time) []api.Image {
	return slices.DeleteFunc(s.List(), func(img api.Image) bool { return img.Name != "" || !img.UsedAt.Before(since) })
}
