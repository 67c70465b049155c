package cache

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// MergeRequest describes a merge of the changes from Base to Theirs into Ours. Base must be an
// ancestor of both.
type MergeRequest struct {
	Base   string // full hash of the commit that Theirs started from
	Ours   string // full hash of the commit to merge into
	Theirs string // full hash of the commit to merge

	// Of the new commits, as in [CommitRequest].
	Author    Identity
	Committer Identity
	Message   string
	Trailers  []string
	When      time.Time
}

// MergeResult is the result of a merge: Commit, Empty or Conflicts with Draft.
type MergeResult struct {
	// Commit is a commit with the merged tree. Its only parent is Ours.
	Commit string
	// Empty says that Ours has everything that Theirs changed. There is no commit.
	Empty bool
	// Conflicts are sorted by path. There is at most one of a path, and at most 1000 are listed.
	Conflicts []Conflict
	// Draft, if there are conflicts, is a commit with the parent Ours on which the merge can be
	// completed. Files with conflicts of the kinds content, add/add and hunk have conflict markers;
	// a file that one side modified and the other deleted is in it; for the other kinds it has the
	// file of Ours.
	Draft string
	// Lost are the changes that a merge without conflicts would have lost: each is in Conflicts
	// too, and there is no commit. A hunk here means that git merged wrongly.
	Lost []Hunk
	// Identical are the changes that both sides made, at most 1000. The result has them once.
	Identical []Hunk
}

// Side is a side of a merge.
type Side string

const (
	Ours   Side = "ours"
	Theirs Side = "theirs"
	Both   Side = "both"
)

// Hunk is a change of adjacent lines of a file, or of a whole file.
type Hunk struct {
	Path string
	Side Side
	// Text has the deleted lines, each after a minus, and the added ones, each after a plus, at most
	// 2 KiB. It is empty for a whole file. It is untrusted.
	Text string
}

const (
	mergeTime     = 5 * time.Minute
	maxMergeFiles = 1000    // that both sides changed
	maxMergeBytes = 8 << 20 // of a file that both sides changed
)

// Merge creates a commit on Ours with the changes from Base to Theirs, on no branch (see
// [Repo.MoveBranch]). Nothing is checked out, and nothing that a commit contains decides how it
// is merged: attributes, drivers and filters have no effect.
//
// A file that one side changed is that side's. Of a file that both changed, git merges the lines;
// then Merge applies the hunks of both sides to the base itself, and the result must be the same
// byte for byte, so that each hunk is accounted for. Renames are not followed: a file that one
// side renamed and the other changed is a conflict.
//
// A conflict is a result and not an error. Kinds: KindInvalid for an invalid request, KindNotFound
// for an unknown commit, KindExhausted if both sides changed more than 1000 files differently.
func (r *Repo) Merge(ctx context.Context, q MergeRequest) (MergeResult, error) {
	c := CommitRequest{Parent: q.Ours, Author: q.Author, Committer: q.Committer, Message: q.Message, Trailers: q.Trailers, When: q.When}
	if err := c.check(); err != nil {
		return MergeResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, mergeTime)
	defer stop()
	lock, err := r.lock(ctx)
	if err != nil {
		return MergeResult{}, err
	}
	defer lock.Close()
	d, err := r.draft(ctx, lock, q.Ours)
	if err != nil {
		return MergeResult{}, err
	}
	defer d.end()
	m := &merge{draft: d, conflicts: map[string]*Conflict{}}
	if _, m.base, err = m.fileMap(ctx, q.Base); err != nil {
		return MergeResult{}, err
	}
	if m.ours, m.parent, err = m.fileMap(ctx, q.Ours); err != nil {
		return MergeResult{}, err
	}
	if _, m.theirs, err = m.fileMap(ctx, q.Theirs); err != nil {
		return MergeResult{}, err
	}
	if err := r.requireAncestor(ctx, q.Base, q.Ours, q.Theirs); err != nil {
		return MergeResult{}, err
	}
	m.final = maps.Clone(m.parent)
	if err := m.paths(ctx); err != nil {
		return MergeResult{}, err
	}
	if err := m.renames(ctx, q); err != nil {
		return MergeResult{}, err
	}
	m.directories()
	if err := m.markers(ctx, q); err != nil {
		return MergeResult{}, err
	}
	return m.finish(ctx, q, c)
}

// requireAncestor returns KindInvalid unless a commit is an ancestor of all others.
func (r *Repo) requireAncestor(ctx context.Context, base string, of ...string) error {
	// Then, and only then, is it the best common ancestor of itself and of them.
	out, err := r.run(ctx, git.Call{Args: append([]string{"merge-base", "--octopus", base}, of...)})
	if git.ExitCode(err, 1) {
		err = nil // they have none
	}
	if err == nil && strings.TrimSpace(string(out)) != base {
		err = api.Errorf(api.KindInvalid, "merge: the base %.10s is not an ancestor of both %.10s", base, strings.Join(of, " and "))
	}
	return err
}

// fileMap returns the tree of a commit, and its files by path, without sizes.
func (m *merge) fileMap(ctx context.Context, commit string) (tree string, files map[string]Entry, err error) {
	if tree, err = m.read.commit(commit); err == nil {
		files, err = m.read.files(ctx, tree)
	}
	return tree, files, err
}

// merge is a merge in progress. The parent of the draft is Ours.
type merge struct {
	*draft
	ours         string // the tree of the parent
	base, theirs map[string]Entry
	conflicts    map[string]*Conflict
	files        int // that both sides changed
	result       MergeResult
}

// paths merges each path that Theirs changed. The entry of a path that does not exist is zero.
func (m *merge) paths(ctx context.Context) error {
	for _, p := range changed(m.base, m.theirs) {
		base, ours, theirs := m.base[p], m.parent[p], m.theirs[p]
		switch {
		case ours == base:
			m.set(p, theirs)
		case ours == theirs:
			m.result.Identical = append(m.result.Identical, Hunk{Path: p, Side: Both})
		default:
			if m.files++; m.files > maxMergeFiles {
				return api.Errorf(api.KindExhausted, "merge: both sides changed more than %d files", maxMergeFiles)
			}
			if err := m.both(ctx, p, base, ours, theirs); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed returns the paths whose entries differ, sorted.
func changed(from, to map[string]Entry) (paths []string) {
	for p, e := range to {
		if from[p] != e {
			paths = append(paths, p)
		}
	}
	for p := range from {
		if _, ok := to[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

func (m *merge) set(p string, e Entry) {
	if e.Mode == "" {
		delete(m.final, p)
	} else {
		m.final[p] = e
	}
}

func (m *merge) conflict(p string, kind ConflictKind) *Conflict {
	c := &Conflict{Path: p, Kind: kind}
	m.conflicts[p] = c
	return c
}

func isFile(m Mode) bool { return m == Regular || m == Executable }

// both merges a path that the sides changed differently.
func (m *merge) both(ctx context.Context, p string, base, ours, theirs Entry) error {
	switch {
	case ours.Mode == "":
		m.set(p, theirs)
		m.conflict(p, ConflictModifyDelete)
	case theirs.Mode == "":
		m.conflict(p, ConflictModifyDelete)
	case ours.Mode == Symlink && theirs.Mode == Symlink:
		m.conflict(p, ConflictLink)
	case ours.Mode == Submodule && theirs.Mode == Submodule:
		m.conflict(p, ConflictSubmodule)
	case !isFile(ours.Mode) || !isFile(theirs.Mode):
		m.conflict(p, ConflictType)
	default:
		return m.file(ctx, p, base, ours, theirs)
	}
	return nil
}

// file merges mode and content of a file.
func (m *merge) file(ctx context.Context, p string, base, ours, theirs Entry) error {
	merged := ours
	switch {
	case ours.Mode == theirs.Mode:
	case !isFile(base.Mode):
		m.conflict(p, ConflictMode)
	case ours.Mode == base.Mode:
		merged.Mode = theirs.Mode
	}
	switch {
	case ours.Hash == theirs.Hash, theirs.Hash == base.Hash:
	case ours.Hash == base.Hash:
		merged.Hash = theirs.Hash
	default:
		return m.content(ctx, p, merged.Mode, base, ours, theirs)
	}
	m.final[p] = merged
	return nil
}

// content merges the lines of a file. Its mode is merged already.
func (m *merge) content(ctx context.Context, p string, mode Mode, base, ours, theirs Entry) error {
	if !isFile(base.Mode) {
		base = Entry{}
	}
	v, large, err := m.versions(base, ours, theirs)
	if err != nil {
		return err
	}
	if large {
		m.conflict(p, ConflictSize)
		return nil
	}
	if v.binary() {
		m.conflict(p, ConflictBinary)
		return nil
	}
	text, clean, err := m.mergeFile(ctx, v)
	if err != nil {
		return err
	}
	switch {
	case base.Mode == "":
		m.conflict(p, ConflictAddAdd)
	case !clean:
		m.conflict(p, ConflictContent)
	default:
		lost, identical, err := m.account(ctx, p, v, text)
		if err != nil {
			return err
		}
		m.result.Lost, m.result.Identical = append(m.result.Lost, lost...), append(m.result.Identical, identical...)
		if len(lost) > 0 {
			m.conflict(p, ConflictHunk)
			if text, _, err = m.mergeFile(ctx, v.withoutBase()); err != nil {
				return err
			}
		}
	}
	return m.keep(p, mode, text)
}

// dirsOf returns the directories of a tree, without its root.
func dirsOf(files map[string]Entry) map[string]bool {
	dirs := map[string]bool{}
	for p := range files {
		for dir := path.Dir(p); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// finish creates the commit, or the draft with the conflicts.
func (m *merge) finish(ctx context.Context, q MergeRequest, c CommitRequest) (MergeResult, error) {
	m.result.Identical = m.result.Identical[:min(len(m.result.Identical), maxListed)]
	m.result.Lost = m.result.Lost[:min(len(m.result.Lost), maxListed)]
	if err := m.write(); err != nil {
		return MergeResult{}, err
	}
	if len(m.conflicts) > 0 {
		c.Message = "Merge with conflicts: " + c.Message
	} else if m.res.Empty && len(changed(m.parent, m.final)) == 0 {
		m.result.Empty = true
		return m.result, nil
	}
	if err := m.draft.commit(ctx, c); err != nil {
		return MergeResult{}, err
	}
	if len(m.conflicts) > 0 {
		m.result.Draft = m.res.Hash
		err := m.describe(ctx, q)
		return m.result, err
	}
	_, got, err := m.fileMap(ctx, m.res.Hash)
	if err != nil {
		return MergeResult{}, api.Errorf(api.KindInternal, "merge: git did not store the commit: %w", err)
	}
	if err := m.verify(got); err != nil {
		return MergeResult{}, err
	}
	m.result.Commit = m.res.Hash
	return m.result, nil
}

// write creates the tree.
func (m *merge) write() error {
	m.took = slices.Sorted(maps.Keys(m.spooled))
	if err := m.hash(); err != nil {
		return err
	}
	m.took = nil
	for _, p := range changed(m.parent, m.final) {
		if _, ok := m.final[p]; ok {
			m.took = append(m.took, p)
		} else {
			m.gone = append(m.gone, p)
		}
	}
	return m.tree(m.ours)
}

// verify compares the tree that git has stored with the rule of merging, for modes and contents: what
// one side changed is that side's, and what none changed is the base's.
func (m *merge) verify(got map[string]Entry) error {
	all := map[string]bool{}
	for _, files := range []map[string]Entry{m.base, m.parent, m.theirs, got} {
		for p := range files {
			all[p] = true
		}
	}
	for p := range all {
		base, ours, theirs, is := m.base[p], m.parent[p], m.theirs[p], got[p]
		side := breaks(string(base.Mode), string(ours.Mode), string(theirs.Mode), string(is.Mode))
		switch {
		case side != "":
		case m.spooled[p] == "":
			side = breaks(base.Hash, ours.Hash, theirs.Hash, is.Hash)
		case is.Hash != m.final[p].Hash: // its lines are accounted for
			side = Both
		}
		if side != "" {
			return api.Errorf(api.KindInternal, "merge: the new tree is without the change of %s to %q", side, git.Sanitize(p, 200))
		}
	}
	return nil
}

// breaks returns the side whose value is not in the merge, "" if the merge is right.
func breaks(base, ours, theirs, is string) Side {
	switch {
	case ours != base && is != ours:
		return Ours
	case theirs != base && is != theirs:
		return Theirs
	case ours == base && theirs == base && is != base:
		return Both
	}
	return ""
}
