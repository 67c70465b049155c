package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// maxMerged bounds a file whose lines are merged, in bytes. A larger one that both sides change is a conflict.
const maxMerged = 16 << 20

// MergeRequest describes the merge of a commit onto another one. All commits are in the cache, and Base is an ancestor of both.
type MergeRequest struct {
	Base   string // what Theirs began from
	Ours   string // what the changes from Base to Theirs are made on
	Theirs string

	Author    Identity
	Committer Identity
	Message   string
	Trailers  []string
	When      time.Time
}

// MergeResult is the result of a merge.
type MergeResult struct {
	Commit string // has Ours as its only parent; empty with conflicts, and if Empty is set
	Empty  bool   // Ours has all of it already
	// Conflicts are the files that both sides change in ways that do not fit together, and Lost the files whose merged lines are not
	// those of both sides.
	Conflicts []Conflict
	Lost      []Conflict
	// Draft, with conflicts, is a commit on Ours in which they are marked. It is no result.
	Draft string
}

// Conflict is a file that cannot be merged.
type Conflict struct {
	Path string
	Why  string
}

// Merge makes the changes from Base to Theirs on Ours, in one commit on no branch. Nothing is checked out.
//
// A file that one side alone changes is taken from it. Of a text that both change the lines are merged, by git merge-file, which obeys
// no attribute and runs no driver of the repository; everything else that both change differently is a conflict: deleted and changed,
// added twice, a binary file, a link, a submodule, a mode. Renames are not detected: a file that one side renames and the other changes
// is deleted and changed. Merged lines are counted: each must be there as often as the changes of both sides say.
//
// Errors are those of [Repo.Commit].
func (r *Repo) Merge(ctx context.Context, q MergeRequest) (MergeResult, error) {
	m := &merger{repo: r, sides: make([]map[string]Entry, 3)}
	for i, commit := range []string{q.Base, q.Ours, q.Theirs} {
		if err := r.requireCommit(ctx, commit); err != nil {
			return MergeResult{}, err
		}
		files, err := r.Files(ctx, commit)
		if err != nil {
			return MergeResult{}, err
		}
		m.sides[i] = make(map[string]Entry, len(files))
		for _, f := range files {
			m.sides[i][f.Path] = f
		}
	}
	if err := m.merge(ctx); err != nil {
		return MergeResult{}, err
	}
	res := MergeResult{Conflicts: m.conflicts, Lost: m.lost}
	whole := len(res.Conflicts)+len(res.Lost) == 0
	if len(m.changes) == 0 && whole {
		res.Empty = true
		return res, nil
	}
	req := CommitRequest{Parent: q.Ours, Changes: m.changes, Author: q.Author, Committer: q.Committer, Message: q.Message, Trailers: q.Trailers, When: q.When}
	if !whole {
		req.Message, req.Trailers = "Conflicts are marked\n\n"+q.Message, nil
	}
	did, err := r.Commit(ctx, req)
	if err != nil {
		return MergeResult{}, err
	}
	for _, s := range did.Refused {
		res.Conflicts = append(res.Conflicts, Conflict{s.Path, s.Why})
	}
	for _, p := range did.Ignored {
		res.Conflicts = append(res.Conflicts, Conflict{p, "the merged .gitignore excludes it"})
	}
	commit := did.Hash
	if did.Empty {
		commit = q.Ours
	}
	if whole = whole && len(did.Refused)+len(did.Ignored) == 0; whole {
		res.Commit, res.Empty = did.Hash, did.Empty
	} else {
		res.Draft = commit
	}
	return res, nil
}

// merger merges the files of three commits: base, ours and theirs.
type merger struct {
	repo      *Repo
	sides     []map[string]Entry
	changes   []Change // against ours
	conflicts []Conflict
	lost      []Conflict
}

const (
	base = iota
	ours
	theirs
)

func (m *merger) conflict(p, why string) {
	m.conflicts = append(m.conflicts, Conflict{strings.ToValidUTF8(p, "?"), why})
}

func (m *merger) merge(ctx context.Context) error {
	var paths []string
	for p := range m.sides[theirs] {
		paths = append(paths, p)
	}
	for p := range m.sides[base] {
		if _, ok := m.sides[theirs][p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		if err := m.file(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// file merges one path that base or theirs has.
func (m *merger) file(ctx context.Context, p string) error {
	b, was := m.sides[base][p]
	o, here := m.sides[ours][p]
	t, there := m.sides[theirs][p]
	same := func(x, y Entry) bool { return x.Hash == y.Hash && x.Mode == y.Mode }
	switch {
	case was && there && same(b, t):
		return nil // theirs does not change it
	case here && there && same(o, t), !here && !there:
		return nil // both do the same
	case was && here && same(b, o) || !was && !here:
		// Ours does not change it, or does not have it.
		if !there {
			m.changes = append(m.changes, Change{Path: p, Delete: true})
			return nil
		}
		if in := m.inTheWay(p); in != "" {
			m.conflict(p, in)
			return nil
		}
		m.take(ctx, t)
		return nil
	case !there:
		m.conflict(p, "it was deleted, and the other side changed it")
		return nil // the draft has it
	case !here:
		m.conflict(p, "it was changed, and the other side deleted it")
		m.take(ctx, t)
		return nil
	case t.Mode == Submodule || o.Mode == Submodule:
		m.conflict(p, "both sides change a submodule")
		return nil
	case t.Mode == Symlink || o.Mode == Symlink || was && (b.Mode == Symlink || b.Mode == Submodule):
		m.conflict(p, "both sides change a link, or make one of it")
		return nil
	}
	return m.lines(ctx, b, o, t, was)
}

// inTheWay says why a new file of theirs cannot be where ours has a directory, or below a file of ours; "" if it can.
func (m *merger) inTheWay(p string) string {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if _, ok := m.sides[ours][dir]; !ok {
			continue
		}
		if _, ok := m.sides[theirs][dir]; !ok && m.same(dir) {
			continue // theirs has made a directory of it, and ours has not changed it
		}
		return "the other side has a file where this one has a directory"
	}
	if _, ok := m.sides[ours][p]; ok {
		return ""
	}
	for q := range m.sides[ours] {
		if strings.HasPrefix(q, p+"/") {
			if _, ok := m.sides[theirs][q]; !ok && m.same(q) {
				continue
			}
			return "the other side has a directory where this one has a file"
		}
	}
	return ""
}

// same reports whether ours has a file as base has it.
func (m *merger) same(p string) bool {
	b, ok := m.sides[base][p]
	o := m.sides[ours][p]
	return ok && b.Hash == o.Hash && b.Mode == o.Mode
}

// take takes a file of theirs.
func (m *merger) take(ctx context.Context, e Entry) {
	if e.Mode == Submodule {
		m.conflict(e.Path, "a submodule was changed, which is not merged")
		return
	}
	m.changes = append(m.changes, Change{Path: e.Path, Mode: e.Mode, Size: e.Size, Open: func() (io.ReadCloser, error) {
		text, err := m.repo.Content(ctx, e, e.Size)
		return io.NopCloser(bytes.NewReader(text)), err
	}})
}

// lines merges the lines of a file that both sides change or add.
func (m *merger) lines(ctx context.Context, b, o, t Entry, was bool) error {
	p, mode := t.Path, t.Mode
	if was && t.Mode == b.Mode {
		mode = o.Mode
	} else if o.Mode != t.Mode && (!was || o.Mode != b.Mode) {
		m.conflict(p, "both sides change its mode")
		mode = o.Mode
	}
	if o.Size > maxMerged || t.Size > maxMerged {
		m.conflict(p, fmt.Sprintf("both sides change it, and it has more than %d MiB", maxMerged>>20))
		return nil
	}
	texts := make([][]byte, 3)
	for i, e := range []Entry{b, o, t} {
		if i == base && !was {
			continue
		}
		var err error
		if texts[i], err = m.repo.Content(ctx, e, maxMerged); err != nil {
			return err
		}
		if bytes.IndexByte(texts[i], 0) >= 0 {
			m.conflict(p, "both sides change a binary file")
			return nil
		}
	}
	merged, clean, err := m.mergeFile(ctx, texts)
	if err != nil {
		return err
	}
	switch {
	case !clean && !was:
		m.conflict(p, "both sides add it, with other contents")
	case !clean:
		m.conflict(p, "both sides change the same lines")
	default:
		if line := miscounted(texts, merged); line != "" {
			m.lost = append(m.lost, Conflict{p, "the merged file does not have this line as often as both sides: " + git.Sanitize(line, 200)})
		}
	}
	m.changes = append(m.changes, Change{Path: p, Mode: mode, Size: int64(len(merged)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(merged)), nil
	}})
	return nil
}

// mergeFile merges the lines of texts. clean is false if there are conflicts, which are marked then.
func (m *merger) mergeFile(ctx context.Context, texts [][]byte) (merged []byte, clean bool, err error) {
	dir, err := os.MkdirTemp(m.repo.cache.cfg.Dir, "tmp-")
	if err != nil {
		return nil, false, api.Errorf(api.KindInternal, "merge: %w", err)
	}
	defer os.RemoveAll(dir)
	names := []string{"base", "ours", "theirs"}
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), texts[i], 0o600); err != nil {
			return nil, false, api.Errorf(api.KindInternal, "merge: %w", err)
		}
	}
	merged, err = m.repo.git.Run(ctx, git.Call{Dir: dir, Args: []string{"merge-file", "-p", "--quiet", "-L", "the plan", "-L", "before", "-L", "this item", "ours", "base", "theirs"}})
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return merged, false, nil // the number of conflicts
	}
	return merged, err == nil, err
}

// miscounted returns a line that the merged text does not have as often as the changes of both sides say; "" if there is none. A line
// that both sides add, or remove, counts once or twice: their change may be the same one.
func miscounted(texts [][]byte, merged []byte) string {
	count := make([]map[string]int, 4)
	for i, text := range append(slices.Clone(texts), merged) {
		count[i] = map[string]int{}
		for line := range bytes.Lines(text) {
			count[i][string(bytes.TrimSuffix(line, []byte("\n")))]++ // the last line may have no end
		}
	}
	check := func(line string) bool {
		b, o, t, got := count[base][line], count[ours][line], count[theirs][line], count[3][line]
		least := max(0, o+t-b)
		most := least
		switch {
		case o > b && t > b:
			least = max(o, t)
		case o < b && t < b:
			most = min(o, t)
		}
		return least <= got && got <= most
	}
	for _, c := range count {
		for line := range c {
			if !check(line) {
				return line
			}
		}
	}
	return ""
}

// MoveBranch sets a branch that exists only in the cache from one commit to another one. KindConflict if it is not at from.
func (r *Repo) MoveBranch(ctx context.Context, name, from, to string) error {
	if err := r.git.CheckBranch(ctx, name); err != nil {
		return err
	}
	for _, commit := range []string{from, to} {
		if err := r.requireCommit(ctx, commit); err != nil {
			return err
		}
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	at, err := r.peel(ctx, ownBranches+name)
	if err != nil {
		return err
	}
	if at != from {
		return api.Errorf(api.KindConflict, "the branch %s is at %.10s, not at %.10s", name, at, from)
	}
	_, err = r.run(ctx, git.Call{Args: []string{"update-ref", "--no-deref", ownBranches + name, to, from}, Lock: lock})
	return err
}
