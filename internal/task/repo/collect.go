package repo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// Bounds of what one task may change.
const (
	maxChangedFiles = 10_000
	maxChangedBytes = 256 << 20
	maxChangedFile  = 64 << 20
	// maxListed bounds the lists in a task's row.
	maxListed = 500
)

// collect makes a commit of what is in the workspace and points the task's branch
// to it.
func (w *attempt) collect(ctx context.Context, n int, partial bool) (string, error) {
	ws, err := w.changedWorkspace(ctx)
	if err != nil {
		return "", err
	}
	changes, refused, release, err := w.cfg.Sandboxes.Changes(ctx, ws, w.members.dirs()...)
	if err != nil {
		return "", err
	}
	defer release()
	changes, denied := w.taken(changes)
	refused = append(denied, refused...)
	q := cache.CommitRequest{
		Parent: w.base.Hash, Changes: changes, Dirs: w.members.dirs(),
		Author: w.identity(), Committer: w.identity(),
		Message: w.message(partial), Trailers: trailers(w.task.ID), When: w.cfg.Now(),
		Limits: cache.Limits{Files: maxChangedFiles, Bytes: maxChangedBytes, FileBytes: maxChangedFile},
	}
	res, err := w.repo.Commit(ctx, q)
	if err != nil {
		return "", err
	}
	for _, r := range res.Refused {
		refused = append(refused, api.RefusedChange{Path: r.Path, Why: r.Why})
	}
	w.collected = n
	w.res.Refused, w.res.Ignored = refused[:min(len(refused), maxListed)], len(res.Ignored)
	w.res.Files, w.res.Head, w.res.Cautions = nil, "", nil
	for i := range w.res.Repositories {
		w.res.Repositories[i].Head = ""
	}
	if res.Empty {
		return "no changes", w.save(ctx)
	}
	if err := w.repo.SetBranch(ctx, w.res.Branch, res.Hash); err != nil {
		return "", err
	}
	if w.members.several() {
		heads, err := w.members.divide(ctx, w.repo, res.Hash, w.res.Branch, q)
		if err != nil {
			return "", err
		}
		for i, head := range heads {
			w.res.Repositories[i].Head = head
		}
	}
	stats, err := w.repo.Stat(ctx, w.base.Hash, res.Hash)
	if err != nil {
		return "", err
	}
	added, deleted := 0, 0
	for _, s := range stats {
		added, deleted = added+s.Added, deleted+s.Deleted
		if len(w.res.Files) < maxListed {
			w.res.Files = append(w.res.Files, api.FileChange{
				Path: s.Path, OldPath: s.OldPath, Status: statusWord(s.Status), Added: s.Added, Deleted: s.Deleted, Binary: s.Binary,
				Test: w.gates.watched(s.Path) || s.OldPath != "" && w.gates.watched(s.OldPath),
			})
		}
	}
	if w.res.Cautions, err = w.gates.cautions(ctx, res.Hash); err != nil {
		return "", err
	}
	w.res.Head = w.turnHead(ctx, res.Hash)
	if n > 0 && n <= len(w.res.Rounds) {
		w.res.Rounds[n-1].Head = w.res.Head
	}
	return fmt.Sprintf("%d files, +%d -%d, commit %.10s", len(stats), added, deleted, res.Hash), w.save(ctx)
}

// statusWord is git's letter for a change in a word.
func statusWord(c byte) string {
	switch c {
	case 'A':
		return "added"
	case 'D':
		return "deleted"
	case 'R':
		return "renamed"
	case 'T':
		return "type changed"
	}
	return "modified"
}

// message is the commit's: the request in a line, and what the agent says of it.
func (w *attempt) message(partial bool) string {
	subject, _, _ := strings.Cut(strings.TrimSpace(w.task.Create.Request), "\n")
	if r := []rune(subject); len(r) > 72 {
		subject = string(r[:69]) + "..."
	}
	var b strings.Builder
	if partial {
		b.WriteString("[partial] ")
	}
	b.WriteString(subject)
	if w.res.Summary != "" {
		b.WriteString("\n\n" + w.res.Summary)
	}
	if partial {
		b.WriteString("\n\nThis work is incomplete, and no gate has passed.")
	}
	return b.String()
}

// trailers name the task, and Hortus as who worked with the author.
func trailers(id api.TaskID) []string {
	return []string{"Hortus-Task: " + string(id), "Co-authored-by: Hortus <hortus@hortus.dev>"}
}

func (w *project) identity() cache.Identity {
	return cache.Identity{Name: w.req.Author.Name, Email: w.req.Author.Email}
}

// touchedTests are the changed files that are tests or rule over them.
func (w *attempt) touchedTests() []string {
	var out []string
	for _, f := range w.res.Files {
		if f.Test {
			out = append(out, f.Path)
		}
	}
	return out
}

// changed lists what a commit has that the base has not, read from the commits
// themselves. It is for sandboxes, so what is off limits is not in it.
func (w *project) changed(ctx context.Context, head string) ([]cache.Change, error) {
	was, err := w.repo.Files(ctx, w.base.Hash)
	if err != nil {
		return nil, err
	}
	is, err := w.repo.Files(ctx, head)
	if err != nil {
		return nil, err
	}
	old := make(map[string]cache.Entry, len(was))
	for _, e := range was {
		old[e.Path] = e
	}
	var out []cache.Change
	for _, e := range is {
		o, there := old[e.Path]
		delete(old, e.Path)
		if there && o.Hash == e.Hash && o.Mode == e.Mode || e.Mode == cache.Submodule || w.files.OffLimits(e.Path) != "" {
			continue
		}
		out = append(out, cache.Change{Path: e.Path, Mode: e.Mode, Size: e.Size, Open: func() (io.ReadCloser, error) {
			b, err := w.repo.ReadFile(ctx, head, e.Path, maxChangedFile)
			return io.NopCloser(bytes.NewReader(b)), err
		}})
	}
	for p, e := range old {
		if e.Mode != cache.Submodule && w.files.OffLimits(p) == "" {
			out = append(out, cache.Change{Path: p, Delete: true})
		}
	}
	slices.SortFunc(out, func(a, b cache.Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
