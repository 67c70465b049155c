package repo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
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
	changes, refused, release, err := w.project.cfg.Sandboxes.Changes(ctx, ws, w.project.members.dirs()...)
	if err != nil {
		return "", err
	}
	defer release()
	changes, refused, left, err := w.project.written(ctx, changes, refused)
	if err != nil {
		return "", err
	}
	changes, wanted := w.project.wanted(changes)
	changes, denied := w.project.taken(changes)
	w.res.Wanted = w.project.denied(wanted, denied)
	refused = append(denied, refused...)
	changes, locks, err := w.project.explained(ctx, changes)
	if err != nil {
		return "", err
	}
	refused = append(locks, refused...)
	q := cache.CommitRequest{
		Parent: w.project.parent(), Changes: changes, Dirs: w.project.members.dirs(),
		Author: w.project.identity(), Committer: w.project.identity(),
		Message: "Change files", Trailers: trailers(w.project.task.ID), When: w.project.cfg.Now(),
		Limits: cache.Limits{Files: maxChangedFiles, Bytes: maxChangedBytes, FileBytes: maxChangedFile},
	}
	res, more, err := w.commit(ctx, &q)
	if err != nil {
		return "", err
	}
	refused = append(refused, more...)
	w.collected = n
	w.res.Refused, w.res.Ignored = refused[:min(len(refused), maxListed)], len(res.Ignored)
	w.res.LeftOut = left[:min(len(left), maxListed)]
	w.res.Files, w.res.Head, w.res.Title, w.res.Cautions = nil, "", "", nil
	for i := range w.res.Repositories {
		w.res.Repositories[i].Head = ""
	}
	if res.Empty && q.Parent == w.project.base.Hash {
		if len(refused) > 0 {
			return fmt.Sprintf("no changes, %d rejected", len(refused)), w.save(ctx)
		}
		return "no changes", w.save(ctx)
	}
	if res.Empty {
		res.Hash = q.Parent // earlier work on the item is the result
	}
	if err := w.list(ctx, res.Hash); err != nil {
		return "", err
	}
	// The message says what the change is, and a turn is a commit on that of the turn before.
	q.Message, q.Parent = w.entitle(ctx, res.Hash, partial), w.project.base.Hash
	if talk := w.project.conversation; talk != nil && talk.turn.Head != "" {
		q.Parent = talk.turn.Head
	}
	if res, err = w.project.repo.CommitTree(ctx, w.project.repo, res.Hash, "", q); err != nil {
		return "", err
	}
	if res.Empty { // the turn has the files of the one before
		res.Hash = q.Parent
	}
	if err := w.project.repo.SetBranch(ctx, w.res.Branch, res.Hash); err != nil {
		return "", err
	}
	if w.project.members.several() {
		heads, err := w.project.members.divide(ctx, w.project.repo, res.Hash, w.res.Branch, q)
		if err != nil {
			return "", err
		}
		for i, head := range heads {
			w.res.Repositories[i].Head = head
		}
	}
	w.res.Head = res.Hash
	if n > 0 && n <= len(w.res.Rounds) {
		w.res.Rounds[n-1].Head = w.res.Head
	}
	added, deleted := 0, 0
	for _, f := range w.res.Files {
		added, deleted = added+f.Added, deleted+f.Deleted
	}
	return fmt.Sprintf("%d files, +%d -%d, commit %.10s", len(w.res.Files), added, deleted, res.Hash), w.save(ctx)
}

// list puts the changed files of a commit into the result, and what a person should look at.
func (w *attempt) list(ctx context.Context, head string) error {
	stats, err := w.project.repo.Stat(ctx, w.project.base.Hash, head)
	if err != nil {
		return err
	}
	entries, err := w.project.repo.Files(ctx, head)
	if err != nil {
		return err
	}
	size := make(map[string]int64, len(entries))
	for _, e := range entries {
		size[e.Path] = e.Size
	}
	w.res.Files = nil
	for _, s := range stats[:min(len(stats), maxListed)] {
		w.res.Files = append(w.res.Files, api.FileChange{
			Path: s.Path, OldPath: s.OldPath, Status: statusWord(s.Status), Added: s.Added, Deleted: s.Deleted, Binary: s.Binary,
			Size: map[bool]int64{true: size[s.Path]}[s.Status == 'A'], Test: w.gates.watched(s.Path) || s.OldPath != "" && w.gates.watched(s.OldPath),
		})
	}
	w.res.Cautions, err = w.gates.cautions(ctx, head)
	return err
}

// commit makes the commit of a request. What it may not have is left out of the request and of the commit, and is
// listed: it ends no task.
func (w *attempt) commit(ctx context.Context, q *cache.CommitRequest) (cache.CommitResult, []api.RefusedChange, error) {
	var refused []api.RefusedChange
	all := len(q.Changes)
	for try := 0; ; try++ {
		res, err := w.project.repo.Commit(ctx, *q)
		if err == nil {
			for _, r := range res.Refused {
				refused = append(refused, api.RefusedChange{Path: r.Path, Why: r.Why})
			}
			return res, refused, nil
		}
		why := strings.TrimPrefix(err.Error(), "commit: ")
		switch kind := api.KindOf(err); {
		case ctx.Err() != nil || kind != api.KindExhausted && kind != api.KindDenied && kind != api.KindTimeout:
			return res, nil, err
		case try == 0:
			// Nobody knows which of these it is that git does not take.
			refused = leave(q, why, func(_ int, c cache.Change) bool { return readByGit[path.Base(c.Path)] && !c.Delete })
			if kind == api.KindExhausted && all > maxChangedFiles {
				if entries, err := w.project.repo.Files(ctx, q.Parent); err == nil { // otherwise the next commit fails with it
					refused = append(refused, leaveMany(q, entries)...)
				}
			}
			if len(refused) > 0 {
				continue
			}
			fallthrough
		default:
			return cache.CommitResult{Empty: true}, []api.RefusedChange{{Path: ".", Why: "nothing of the change can be committed: " + why}}, nil
		}
	}
}

// readByGit are the files of a commit that git itself reads.
var readByGit = map[string]bool{".gitmodules": true, ".gitattributes": true, ".gitignore": true}

// leave takes changes out of a request, and lists them.
func leave(q *cache.CommitRequest, why string, out func(i int, c cache.Change) bool) (refused []api.RefusedChange) {
	var kept []cache.Change
	for i, c := range q.Changes {
		if !out(i, c) {
			kept = append(kept, c)
		} else if len(refused) < maxListed {
			refused = append(refused, api.RefusedChange{Path: strings.ToValidUTF8(c.Path, "?"), Why: why})
		}
	}
	q.Changes = kept
	return refused
}

// leaveMany takes the changes out of a request that are more than a commit may have: files that the parent does not have, the last
// first. They are listed by their directories.
func leaveMany(q *cache.CommitRequest, parent []cache.Entry) (refused []api.RefusedChange) {
	base := map[string]bool{}
	for _, e := range parent {
		base[e.Path] = true
	}
	slices.SortStableFunc(q.Changes, func(a, b cache.Change) int {
		switch {
		case base[a.Path] == base[b.Path]:
			return strings.Compare(a.Path, b.Path)
		case base[a.Path]:
			return -1
		}
		return 1
	})
	count := map[string]int{}
	leave(q, "", func(i int, c cache.Change) bool {
		if i < maxChangedFiles {
			return false
		}
		top, _, _ := strings.Cut(strings.ToValidUTF8(c.Path, "?"), "/")
		count[top]++
		return true
	})
	for _, top := range slices.Sorted(maps.Keys(count)) {
		refused = append(refused, api.RefusedChange{Path: top, Why: fmt.Sprintf("a change has at most %d files, and %d files here are more", maxChangedFiles, count[top])})
	}
	return refused[:min(len(refused), maxListed)]
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
			b, err := w.repo.Content(ctx, e, maxChangedFile)
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

// maxDiff bounds a patch, in bytes.
const maxDiff = 512 << 20

// Diff returns the patch of a task's result against what it started from: of one
// round, or of the last result for round 0. repository names one of several, whose patch
// of the last result has paths relative to it; empty for all.
func (r *Runner) Diff(ctx context.Context, t api.Task, round int, repository string) (io.ReadCloser, error) {
	head, err := headOf(t, round)
	if err != nil {
		return nil, err
	}
	if repository != "" && round != 0 {
		return nil, api.Errorf(api.KindInvalid, "the patch of a round is of all repositories; it cannot be of %.80q alone", repository)
	}
	from, part, err := r.part(ctx, t, repository)
	if err != nil {
		return nil, err
	}
	if repository != "" {
		head = part.Head
	}
	patch, err := from.Diff(ctx, part.Commit, head, cache.DiffOptions{Max: maxDiff})
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(patch)), nil
}

// part returns the result of one of several repositories, and where its commits are; that of all for an empty name.
func (r *Runner) part(ctx context.Context, t api.Task, name string) (*cache.Repo, api.RepoResult, error) {
	res := *t.Repo
	w := r.newProject(Job{Task: t})
	if err := w.recall(ctx, res); err != nil {
		return nil, res, err
	}
	if name == "" {
		return w.repo, res, nil
	}
	for _, m := range w.members {
		part, ok := res.Of(name)
		switch {
		case m.Name != name || !ok:
		case part.Head == "":
			return nil, part, api.Errorf(api.KindNotFound, "task %s changed nothing in %s", t.ID, name)
		default:
			return m.repo, part, nil
		}
	}
	return nil, res, api.Errorf(api.KindNotFound, "task %s has no repository %.80q", t.ID, name).
		WithHint("To see its repositories: hortus task show %s.", t.ID)
}

// headOf finds the commit of a result.
func headOf(t api.Task, round int) (string, error) {
	if t.Repo == nil || t.Repo.Commit == "" {
		return "", api.Errorf(api.KindNotFound, "task %s has no result yet", t.ID)
	}
	head := t.Repo.Head
	if round != 0 {
		if round < 0 || round > len(t.Repo.Rounds) {
			return "", api.Errorf(api.KindNotFound, "task %s has %d rounds; round %d does not exist", t.ID, len(t.Repo.Rounds), round)
		}
		head = t.Repo.Rounds[round-1].Head
	}
	if n := len(t.Repo.Refused); head == "" && n > 0 {
		return "", api.Errorf(api.KindNotFound, "all changes of task %s were rejected: %s", t.ID, rejected(t.Repo.Refused)).
			WithHint("The files are in its workspace. To see it: hortus task show %s.", t.ID)
	}
	if head == "" {
		return "", api.Errorf(api.KindNotFound, "task %s changed nothing", t.ID)
	}
	return head, nil
}

// rejected lists the first few changes that were not taken.
func rejected(all []api.RefusedChange) string {
	const most = 3
	var out []string
	for _, r := range all[:min(len(all), most)] {
		out = append(out, fmt.Sprintf("%.200s (%.300s)", r.Path, r.Why))
	}
	if len(all) > most {
		out = append(out, fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(out, ", ")
}

// Bundle returns a task's branch as a git bundle, over the commit that it started
// from, of the only repository or of the one that is named. It is made whole before
// anything of it is read.
func (r *Runner) Bundle(ctx context.Context, t api.Task, repository string) (io.ReadCloser, error) {
	if _, err := headOf(t, 0); err != nil {
		return nil, err
	}
	if repository == "" && len(t.Create.Repo.Also) > 0 {
		return nil, api.Errorf(api.KindInvalid, "task %s has several repositories, each with a branch of its own", t.ID).
			WithHint("Name one of them; to see them: hortus task show %s.", t.ID)
	}
	from, part, err := r.part(ctx, t, repository)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "hortus-bundle-")
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "create a bundle: %w", err)
	}
	// Nothing has to find it by its name.
	os.Remove(f.Name())
	if err := from.Bundle(ctx, f, part.Branch, part.Commit); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, api.Errorf(api.KindInternal, "read the bundle: %w", err)
	}
	return f, nil
}
