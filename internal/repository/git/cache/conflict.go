package cache

import (
	"bytes"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Conflict is a path whose changes cannot be merged.
type Conflict struct {
	Path string // untrusted: as in the commits
	Kind ConflictKind
	// Renamed is the new path of a file that one side renamed.
	Renamed string
	// Ours and Theirs are the patches of the path from Base to each side. They are untrusted.
	Ours, Theirs string
	// Truncated says that a patch is incomplete or missing because of its size.
	Truncated bool
}

// ConflictKind is the kind of a [Conflict].
type ConflictKind string

const (
	ConflictContent      ConflictKind = "content"           // both changed the same lines, or adjacent ones
	ConflictAddAdd       ConflictKind = "add/add"           // both added the file, with different content
	ConflictModifyDelete ConflictKind = "modify/delete"     // one modified the file, the other deleted it
	ConflictRenameModify ConflictKind = "rename/modify"     // one modified the file, the other renamed it
	ConflictRenameDelete ConflictKind = "rename/delete"     // one renamed the file, the other deleted it
	ConflictRenameRename ConflictKind = "rename/rename"     // each gave the file another name
	ConflictBinary       ConflictKind = "binary"            // both changed a binary file
	ConflictMode         ConflictKind = "mode"              // both added the file, one as an executable
	ConflictType         ConflictKind = "type"              // a file, a link or a submodule
	ConflictLink         ConflictKind = "link"              // both changed the target of a symbolic link
	ConflictSubmodule    ConflictKind = "submodule"         // both changed the commit of a submodule
	ConflictDirectory    ConflictKind = "directory/file"    // a file of one side is a directory of the other
	ConflictRemoved      ConflictKind = "directory removed" // one added the file to a directory that the other removed or renamed
	ConflictSize         ConflictKind = "size"              // both changed a file that is too large to be merged
	ConflictMarkers      ConflictKind = "markers"           // Theirs has conflict markers of a draft
	ConflictHunk         ConflictKind = "hunk"              // the merge of git would lose a change: see Lost
)

// The first and the last line of a conflict in a file of a draft.
const (
	markOurs   = "<<<<<<< ours (merge of Hortus)"
	markTheirs = ">>>>>>> theirs (merge of Hortus)"
)

// renames names the files that a side renamed. Merging does not follow renames, since their
// detection is a guess: what it would change is a conflict.
func (m *merge) renames(ctx context.Context, q MergeRequest) error {
	var removed []string
	for p := range m.base {
		_, ours := m.parent[p]
		_, theirs := m.theirs[p]
		if !ours && !theirs || m.conflicts[p] != nil && m.conflicts[p].Kind == ConflictModifyDelete {
			removed = append(removed, p)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	ours, err := m.renamed(ctx, q.Base, q.Ours)
	if err != nil {
		return err
	}
	theirs, err := m.renamed(ctx, q.Base, q.Theirs)
	if err != nil {
		return err
	}
	for _, p := range removed {
		a, b, c := ours[p], theirs[p], m.conflicts[p]
		switch {
		case c != nil && a+b != "": // only one of them deleted it
			c.Kind, c.Renamed = ConflictRenameModify, a+b
		case c == nil && a != "" && b != "" && a != b:
			m.conflict(p, ConflictRenameRename).Renamed = b
		case c == nil && (a == "") != (b == ""):
			m.conflict(p, ConflictRenameDelete).Renamed = a + b
		}
	}
	return nil
}

// renamed returns the new paths of the files that are renamed between two commits.
func (m *merge) renamed(ctx context.Context, from, to string) (map[string]string, error) {
	raw, err := m.diffTree(ctx, from, to, true, 0, "-z", "--raw", "--no-abbrev", "--diff-filter=R")
	if err != nil {
		return nil, err
	}
	stats, _, err := parseRaw(git.SplitNUL(raw))
	names := map[string]string{}
	for _, s := range stats {
		names[s.OldPath] = s.Path
	}
	return names, err
}

// directories finds the conflicts of paths with those above them.
func (m *merge) directories() {
	dirs := dirsOf(m.final)
	for p := range m.final {
		if dirs[p] {
			m.conflict(p, ConflictDirectory)
		}
	}
	// Such a path is that of Ours in the draft.
	for p := range m.final {
		if m.final[p] == m.parent[p] {
			continue
		}
		for at := p; at != "."; at = path.Dir(at) {
			if c := m.conflicts[at]; c != nil && c.Kind == ConflictDirectory {
				m.out(p)
			}
		}
	}
	base, ours, theirs := dirsOf(m.base), dirsOf(m.parent), dirsOf(m.theirs)
	added := func(side map[string]Entry, other map[string]bool) {
		for p := range side {
			if _, old := m.base[p]; old || m.conflicts[p] != nil {
				continue
			}
			dir := path.Dir(p)
			for !base[dir] && dir != "." {
				dir = path.Dir(dir)
			}
			if dir != "." && !other[dir] {
				m.conflict(p, ConflictRemoved)
			}
		}
	}
	added(m.theirs, ours)
	added(m.parent, theirs)
}

// markers finds the files in which Theirs has left conflict markers of a draft.
func (m *merge) markers(ctx context.Context, q MergeRequest) error {
	marked := false
	for _, p := range changed(m.base, m.theirs) {
		e := m.theirs[p]
		if !isFile(e.Mode) || m.conflicts[p] != nil {
			continue
		}
		b, _, err := m.read.blob(e.Hash, maxMergeBytes)
		if err != nil {
			return err
		}
		if marked = hasMarks(b); marked {
			break
		}
	}
	if !marked {
		return nil
	}
	// They may be in the base already, as in a document about them.
	names, err := m.diffTree(ctx, q.Base, q.Theirs, false, 0, "-z", "--name-only", "--text", "--diff-filter=d", "-G^(<<<<<<< ours|>>>>>>> theirs) ")
	if err != nil {
		return err
	}
	for _, p := range git.SplitNUL(names) {
		e := m.theirs[p]
		if !isFile(e.Mode) || m.conflicts[p] != nil {
			continue
		}
		b, _, err := m.read.blob(e.Hash, maxMergeBytes)
		if err != nil {
			return err
		}
		if hasMarks(b) {
			m.conflict(p, ConflictMarkers)
		}
	}
	return nil
}

// hasMarks reports whether a text has a conflict marker of a draft.
func hasMarks(b []byte) bool {
	if !bytes.Contains(b, []byte(markOurs)) && !bytes.Contains(b, []byte(markTheirs)) {
		return false
	}
	return slices.ContainsFunc(lines(b), func(line string) bool {
		line = strings.TrimRight(line, "\r\n")
		return line == markOurs || line == markTheirs
	})
}

const (
	maxConflictPatch   = 16 << 10 // of one side
	maxConflictPatches = 50       // conflicts that have patches
	maxListed          = 1000     // conflicts and hunks that a result has
)

// describe adds the patches of both sides to the conflicts.
func (m *merge) describe(ctx context.Context, q MergeRequest) error {
	for i, p := range slices.Sorted(maps.Keys(m.conflicts)) {
		if i == maxListed {
			break
		}
		c := m.conflicts[p]
		c.Truncated = i >= maxConflictPatches
		if !c.Truncated {
			for side, to := range map[string]*string{q.Ours: &c.Ours, q.Theirs: &c.Theirs} {
				b, err := m.run(ctx, git.Call{Max: 1 << 20, Args: []string{"diff-tree", "-r", "--patch", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--submodule=short", "--no-color",
					"--src-prefix=a/", "--dst-prefix=b/", "--end-of-options", q.Base, side, "--", p}})
				if err != nil && api.KindOf(err) != api.KindExhausted {
					return err
				}
				if len(b) > maxConflictPatch || err != nil {
					b, c.Truncated = b[:min(len(b), maxConflictPatch)], true
				}
				*to = strings.ToValidUTF8(string(b), "?")
			}
		}
		m.result.Conflicts = append(m.result.Conflicts, *c)
	}
	return nil
}
