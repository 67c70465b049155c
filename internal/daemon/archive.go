package daemon

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/s3"
)

// archiveCheckWithin is the maximum time of a check of the archive of layers.
const archiveCheckWithin = 20 * time.Second

// openArchive opens the archive of layers of a setting: a directory or an object store. It does
// not reach either.
func openArchive(text string) (*archive.Archive, error) {
	if !strings.Contains(text, "://") {
		if !filepath.IsAbs(text) {
			return nil, api.Errorf(api.KindInvalid, "%.200q is neither an absolute path nor an address that begins with %s", text, s3.Scheme)
		}
		return &archive.Archive{Blobs: archive.Dir{Path: text}}, nil
	}
	l, err := s3.Parse(text)
	if err != nil {
		return nil, err
	}
	b, err := s3.Open(s3.Config{Location: l})
	if err != nil {
		return nil, err
	}
	return &archive.Archive{Blobs: b}, nil
}

// watchArchive checks the archive once, in the background, and logs what is wrong.
func (s *System) watchArchive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), archiveCheckWithin)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.archive.Check(ctx); err != nil && ctx.Err() != context.Canceled {
			s.log.Warn("layers are built without their archive", "error", err, "hint", api.HintOf(err))
		}
	}()
	s.onClose(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// archiveReport says whether the archive can be used; nil if there is none.
func (s *System) archiveReport(ctx context.Context) *api.ArchiveReport {
	if s.archive == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archiveCheckWithin)
	defer cancel()
	r := &api.ArchiveReport{Location: s.archive.Blobs.String(), OK: true}
	if err := s.archive.Check(ctx); err != nil {
		r.OK, r.Reason, r.Fix = false, err.Error(), api.HintOf(err)
	}
	return r
}
