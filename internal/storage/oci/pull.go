package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/oci/source"
	"hortus.dev/internal/storage/unpack"
)

// parallel is the number of layers that are unpacked at the same time.
const parallel = 3

// progressEvery is the minimum time between two reports of one layer's progress.
const progressEvery = time.Second

// Pull makes an image available and returns its record. An image that is there is returned
// without a request to its registry, unless Refresh or a Name is set. progress, which may be nil,
// is called with each step, by one goroutine at a time.
//
// Errors: those of source.Open; KindInvalid for a layer that is malformed, hostile or too large,
// or whose content has another digest than the image says; KindExhausted if the disk is full.
// After an error no record is changed and no incomplete layer is left.
func (s *Images) Pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error) {
	img, err := s.pull(ctx, req, progress)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = api.Errorf(api.KindExhausted, "no space left on the disk of %s: %w", filepath.Dir(s.cfg.Layers.Dir()), err).
			WithHint("free space there, for example with hortus gc")
	}
	return img, err
}

func (s *Images) pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error) {
	full, err := source.Canonical(req.Reference)
	if err != nil {
		return api.Image{}, err
	}
	id := idOf(full)
	if req.Name != "" {
		if err := checkName(req.Name); err != nil {
			return api.Image{}, err
		}
		id = req.Name
	}
	if err := s.checkIsolation(req); err != nil {
		return api.Image{}, err
	}
	release, err := s.begin(ctx, id)
	if err != nil {
		return api.Image{}, err
	}
	defer release()
	have, err := s.Find(id)
	if err == nil && req.Name == "" && !req.Refresh && !source.IsPath(full) && s.missing(have) == "" {
		return have, nil
	}
	p := &puller{Images: s, report: progress}
	p.say("resolve %s", req.Reference)
	img, err := source.Open(ctx, full, s.cfg.Source)
	if err != nil {
		return api.Image{}, err
	}
	defer img.Close()
	defer p.release()
	layers, err := p.layers(ctx, img)
	if err != nil {
		return api.Image{}, err
	}
	all, set, err := p.finish(ctx, img, layers)
	if err != nil {
		return api.Image{}, err
	}
	now := s.cfg.Now().UTC()
	out := api.Image{
		ID: id, Reference: full, Name: req.Name, Digest: img.Digest, Platform: img.Platform,
		Bytes: p.total.Bytes, Skipped: p.total.Skipped, Dropped: p.total.Dropped,
		Command: set.Command(), Entrypoint: set.Entrypoint, User: set.User.Name, WorkingDir: set.Dir, Env: envNames(set.Env), Isolation: req.Isolation, CreatedAt: now, UsedAt: now,
	}
	for _, d := range all {
		out.Layers = append(out.Layers, string(d))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return out, s.store(out)
}

// checkIsolation refuses a default isolation of an image that is no template, and one that no backend has.
func (s *Images) checkIsolation(req api.PullImage) error {
	switch {
	case req.Isolation == "":
		return nil
	case req.Name == "":
		return api.Errorf(api.KindInvalid, "only a template has a default isolation, and this image has no name")
	case s.cfg.CheckIsolation == nil:
		return api.Errorf(api.KindUnsupported, "this daemon has no backends that a template could name")
	}
	return s.cfg.CheckIsolation(req.Isolation)
}

// checkName refuses what is no name of a template.
func checkName(name string) error {
	if name == "" || len(name) > 63 || name[0] == '-' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return api.Errorf(api.KindInvalid, "%.80q is not a valid template name", name).
			WithHint("use 1 to 63 lower-case letters, digits and -, beginning with a letter or a digit")
	}
	if name == api.HostTemplate || name == "auto" || api.SnapshotID(name).Valid() || api.SandboxID(name).Valid() {
		return api.Errorf(api.KindInvalid, "the name %q is reserved", name)
	}
	return nil
}

// begin waits until no other pull of the image runs.
func (s *Images) begin(ctx context.Context, id string) (release func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.pulls[id]
		if !busy {
			done := make(chan struct{})
			s.pulls[id] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.pulls, id)
				s.mu.Unlock()
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// puller is one pull.
type puller struct {
	*Images
	report func(string)

	mu     sync.Mutex
	leases []*layer.Lease
	total  unpack.Result
}

func (p *puller) say(format string, args ...any) {
	if p.report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report(fmt.Sprintf(format, args...))
}

// hold keeps a layer until the pull has ended.
func (p *puller) hold(d layer.Digest) error {
	_, lease, err := p.cfg.Layers.Lease(d)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leases = append(p.leases, lease)
	return nil
}

func (p *puller) release() {
	for _, l := range p.leases {
		l.Release()
	}
}

// digestOf returns the name of a layer.
func digestOf(diffID string) layer.Digest {
	return layer.Digest("sha256-" + strings.TrimPrefix(diffID, "sha256:"))
}

// layers makes the layers of an image.
func (p *puller) layers(ctx context.Context, img *source.Image) ([]layer.Digest, error) {
	out := make([]layer.Digest, len(img.Layers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	first := map[layer.Digest]bool{} // an image may have a layer twice
	for i, l := range img.Layers {
		d := digestOf(l.DiffID)
		out[i] = d
		if first[d] {
			continue
		}
		first[d] = true
		group.Go(func() error {
			what := fmt.Sprintf("layer %d of %d", i+1, len(img.Layers))
			if err := p.layer(ctx, d, l, what); err != nil {
				if api.KindOf(err) == api.KindCanceled {
					return err
				}
				return fmt.Errorf("%s of image %s: %w", what, img.Reference, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// layer makes one layer, unless it is there.
func (p *puller) layer(ctx context.Context, d layer.Digest, l source.Layer, what string) error {
	for try := 0; ; try++ {
		_, err := p.cfg.Layers.Put(ctx, d, func(ctx context.Context, dir string) (layer.Tree, error) {
			return p.unpack(ctx, dir, l, what)
		})
		if err != nil {
			return err
		}
		// The garbage collector may have been faster.
		if err = p.hold(d); api.KindOf(err) != api.KindNotFound || try == 3 {
			if err == nil {
				p.count(d)
			}
			return err
		}
	}
}

// unpack writes a layer into the directory of the layer store, and verifies its digest.
func (p *puller) unpack(ctx context.Context, dir string, l source.Layer, what string) (layer.Tree, error) {
	size := ""
	if l.Size >= 0 {
		size = ", " + mebibytes(l.Size)
	}
	p.say("read %s%s", what, size)
	raw, err := l.Open(ctx)
	if err != nil {
		return layer.Tree{}, err
	}
	defer raw.Close()
	plain, err := unpack.Decompress(&progressReader{Reader: raw, p: p, what: what, of: size, at: time.Now()})
	if err != nil {
		return layer.Tree{}, api.Errorf(api.KindInvalid, "%w", err)
	}
	defer plain.Close()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return layer.Tree{}, err
	}
	hash := sha256.New()
	res, err := unpack.Apply(ctx, io.TeeReader(plain, hash), root, unpack.Options{
		Owners: os.Geteuid() == 0, MaxBytes: p.cfg.MaxLayerBytes, MaxEntries: p.cfg.MaxEntries,
	})
	if err != nil {
		return layer.Tree{}, err
	}
	if got := "sha256:" + hex.EncodeToString(hash.Sum(nil)); got != l.DiffID {
		return layer.Tree{}, api.Errorf(api.KindInvalid, "its content has the digest %s, the image says %s", got, l.DiffID)
	}
	return layer.Tree{Root: root}, writeResult(dir, res)
}

// progressReader reports how much was read.
type progressReader struct {
	io.Reader
	p        *puller
	what, of string
	n        int64
	at       time.Time
}

func (c *progressReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	if now := time.Now(); now.Sub(c.at) >= progressEvery {
		c.at = now
		c.p.say("read %s%s: %s so far", c.what, c.of, mebibytes(c.n))
	}
	return n, err
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
