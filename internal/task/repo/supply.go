package repo

import (
	"bytes"
	"context"
	"path"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
)

// unexplained is why a lock file is not taken.
const unexplained = "a lock file that changed without its manifest: it decides which packages are installed, and the request has to be about that"

// explained leaves out the lock files that changed although the project needs no other packages. The gate would install them, and
// nobody reads them.
func (w *project) explained(ctx context.Context, changes []cache.Change) ([]cache.Change, []api.RefusedChange, error) {
	if w.req.LocksMayChange || !slices.ContainsFunc(changes, func(c cache.Change) bool { return gate.IsLock(c.Path) }) {
		return changes, nil, nil
	}
	entries, err := w.repo.Files(ctx, w.base.Hash)
	if err != nil {
		return nil, nil, err
	}
	base := make(map[string]cache.Entry, len(entries))
	for _, e := range entries {
		base[e.Path] = e
	}
	// A file that was written again as it was has not changed.
	var changed []string
	for _, c := range changes {
		if !gate.IsLock(c.Path) && !gate.IsManifest(c.Path) {
			continue
		}
		if e, there := base[c.Path]; there && !c.Delete && c.Mode != cache.Symlink && e.Mode != cache.Symlink {
			was, err := w.repo.Content(ctx, e, maxChangedFile)
			if err != nil {
				return nil, nil, err
			}
			if is := content(c, maxChangedFile); is != nil && bytes.Equal(was, is) {
				continue
			}
		}
		changed = append(changed, c.Path)
	}
	lone := gate.LoneLocks(changed)
	q := cache.CommitRequest{Changes: changes}
	refused := leave(&q, unexplained, func(_ int, c cache.Change) bool { return slices.Contains(lone, c.Path) })
	return q.Changes, refused, nil
}

// maxUnread bounds the cautions about files.
const maxUnread = 20

// unread names the changed files of a result that a review passes over, but for those that only moved.
func (w *project) unread(ctx context.Context, head string) (out []api.Caution, err error) {
	was, err := w.repo.Files(ctx, w.base.Hash)
	if err != nil {
		return nil, err
	}
	is, err := w.repo.Files(ctx, head)
	if err != nil {
		return nil, err
	}
	there, before := map[string]bool{}, map[string]cache.Entry{}
	for _, e := range was {
		there[e.Path], before[e.Path] = true, e
	}
	for _, e := range is {
		there[e.Path] = true
	}
	has := func(p string) bool { return there[p] }
	for _, e := range is {
		if o, old := before[e.Path]; old && o.Hash == e.Hash && o.Mode == e.Mode {
			continue
		}
		uses := gate.Unread(e.Path, has)
		if uses == "" || slices.ContainsFunc(was, func(o cache.Entry) bool {
			return o.Hash == e.Hash && path.Base(o.Path) == path.Base(e.Path) && gate.Unread(o.Path, has) == uses
		}) {
			continue
		}
		c := api.Caution{Path: e.Path, Uses: uses}
		dir := gate.CopiedBelow(e.Path, has)
		if dir != "" {
			c.Path = dir
		}
		if (dir == "" && !gate.IsLock(e.Path) || !w.req.LocksMayChange) && !slices.Contains(out, c) {
			if out = append(out, c); len(out) == maxUnread {
				break
			}
		}
	}
	return out, nil
}
