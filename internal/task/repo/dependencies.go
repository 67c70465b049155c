package repo

import (
	"context"
	"io"
	"slices"
	"strings"

	"hortus.dev/internal/repository/git/cache"
)

// dependencies returns what a gate has below a tree of changes: the setups of the bases, or that of the changed tree of a
// repository whose changes decide what is installed. The caller releases it.
func (j *gates) dependencies(ctx context.Context, changes []cache.Change, top Layer) (SetupResult, error) {
	others := map[*repository]SetupResult{}
	for _, m := range j.of.members {
		part := m.part(changes)
		if len(part) == 0 {
			continue
		}
		p, err := m.dependencies(ctx, part, top, j.of.steps)
		if err != nil {
			j.of.members.together(others).Release()
			return j.of.members.together(nil), err
		}
		others[m] = p
	}
	return j.of.members.together(others), nil
}

func (m *repository) dependencies(ctx context.Context, changes []cache.Change, top Layer, l *steps) (SetupResult, error) {
	same := m.prepared
	same.Release = func() {}
	if m.cfg.Setup == nil || m.req.NoSetup {
		return same, nil
	}
	files, _, err := m.visible(ctx)
	if err != nil {
		return same, err
	}
	q := m.setupRequest(ctx, changedFiles(files, changes), l)
	q.Work, q.Known = top, m.prepared.Key
	base := q.Read
	q.Read = func(path string, max int64) []byte {
		for _, c := range changes {
			if c.Path == path {
				return content(c, max)
			}
		}
		return base(path, max)
	}
	p, err := m.cfg.Setup.Prepare(ctx, q)
	if err != nil {
		return same, err
	}
	if p.Key == same.Key {
		p.Release()
		return same, nil
	}
	return p, nil
}

// changedFiles returns the files of a commit after changes, sorted by path.
func changedFiles(files []cache.Entry, changes []cache.Change) []cache.Entry {
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		changed[c.Path] = true
	}
	out := slices.DeleteFunc(slices.Clone(files), func(f cache.Entry) bool { return changed[f.Path] })
	for _, c := range changes {
		if !c.Delete {
			out = append(out, cache.Entry{Path: c.Path, Mode: c.Mode, Size: c.Size})
		}
	}
	slices.SortFunc(out, func(a, b cache.Entry) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// content returns at most max bytes of a changed file; nil if it cannot be read.
func content(c cache.Change, max int64) []byte {
	if c.Delete || c.Open == nil {
		return nil
	}
	r, err := c.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, max))
	if err != nil {
		return nil
	}
	return b
}
