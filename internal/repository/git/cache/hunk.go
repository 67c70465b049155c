package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// versions are the three versions of a file that both sides changed, and where git finds them.
type versions struct {
	base, ours, theirs []byte
	baseHash           string // empty if it did not exist
	oursHash           string
	theirsHash         string
}

// versions reads the versions of a file; large says that one of them is larger than what is merged.
func (m *merge) versions(base, ours, theirs Entry) (v versions, large bool, err error) {
	v.baseHash, v.oursHash, v.theirsHash = base.Hash, ours.Hash, theirs.Hash
	for _, side := range []struct {
		hash string
		to   *[]byte
	}{{v.baseHash, &v.base}, {v.oursHash, &v.ours}, {v.theirsHash, &v.theirs}} {
		if side.hash == "" {
			continue // there is none
		}
		if *side.to, large, err = m.read.blob(side.hash, maxMergeBytes); err != nil || large {
			return v, large, err
		}
	}
	return v, false, nil
}

// withoutBase returns versions that conflict everywhere.
func (v versions) withoutBase() versions {
	v.base, v.baseHash = nil, ""
	return v
}

// binary reports whether a version has a NUL.
func (v versions) binary() bool {
	return slices.ContainsFunc([][]byte{v.base, v.ours, v.theirs}, func(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 })
}

// mergeFile merges the lines of a file with git merge-file, which reads neither attributes nor
// the index. The result has conflict markers unless clean is set.
func (m *merge) mergeFile(ctx context.Context, v versions) (text []byte, clean bool, err error) {
	dir := filepath.Join(m.dir, "files")
	for name, b := range map[string][]byte{"base": v.base, "ours": v.ours, "theirs": v.theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return nil, false, api.Errorf(api.KindInternal, "merge: %w", err)
		}
	}
	text, err = m.run(ctx, git.Call{Dir: dir, Args: []string{"merge-file", "--stdout", "--quiet", "--diff3", "-L", markOurs[8:], "-L", "base", "-L", markTheirs[8:], "ours", "base", "theirs"}})
	// The exit code is the number of conflicts, at most 127.
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() <= 127 {
		return text, false, nil
	}
	return text, err == nil, err
}

// keep spools the merged content of a path.
func (m *merge) keep(p string, mode Mode, text []byte) error {
	name := fmt.Sprint("m", len(m.spooled))
	if err := os.WriteFile(filepath.Join(m.dir, "files", name), text, 0o600); err != nil {
		return api.Errorf(api.KindInternal, "merge: %w", err)
	}
	m.spooled[p] = name
	m.final[p] = Entry{Path: p, Mode: mode}
	return nil
}

// account returns the hunks of both sides that merged does not have, and those that both made.
func (m *merge) account(ctx context.Context, p string, v versions, merged []byte) (lost, identical []Hunk, err error) {
	base := lines(v.base)
	ours, err := m.edits(ctx, v.baseHash, v.oursHash, base, lines(v.ours))
	if err != nil {
		return nil, nil, err
	}
	theirs, err := m.edits(ctx, v.baseHash, v.theirsHash, base, lines(v.theirs))
	if err != nil {
		return nil, nil, err
	}
	lost, identical = account(base, ours, theirs, lines(merged))
	for _, hunks := range [][]Hunk{lost, identical} {
		for i := range hunks {
			hunks[i].Path = p
		}
	}
	return lost, identical, nil
}

// lines divides a text after each line feed.
func lines(b []byte) []string {
	l := strings.SplitAfter(string(b), "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

// edit replaces the lines [from, to) of the base.
type edit struct {
	from, to int
	lines    []string
}

// apply returns the lines [from, to) of the base after edits that are all within.
func apply(base []string, from, to int, edits []edit) (out []string) {
	for _, e := range edits {
		out = append(append(out, base[from:e.from]...), e.lines...)
		from = e.to
	}
	return append(out, base[from:to]...)
}

// edits returns what turns the base into a side, in order. There is an unchanged line at least
// between two of them.
func (m *merge) edits(ctx context.Context, from, to string, base, side []string) ([]edit, error) {
	// A line of context keeps git from skipping the common end, after which it would place an
	// edit between equal lines elsewhere than merge-file does.
	out, err := m.run(ctx, git.Call{Args: []string{"diff", "--no-ext-diff", "--no-textconv", "--text", "--no-color", "--no-indent-heuristic", "--diff-algorithm=myers", "--inter-hunk-context=0", "--unified=1", from, to}})
	if err != nil {
		return nil, err
	}
	edits, ok := parseEdits(out, len(base), side)
	// The parser is not trusted: the edits must yield the side.
	if !ok || !slices.Equal(apply(base, 0, len(base), edits), side) {
		return nil, api.Errorf(api.KindInternal, "git diff printed unexpected output")
	}
	return edits, nil
}

// parseEdits reads a patch of one file. It takes only the numbers of lines from it.
func parseEdits(patch []byte, base int, side []string) (edits []edit, ok bool) {
	var at, in int         // next line of the base and of the side
	var leftAt, leftIn int // lines that the hunk still has of each
	open := false
	for line := range strings.SplitSeq(string(patch), "\n") {
		if leftAt == 0 && leftIn == 0 {
			open = false
			if strings.HasPrefix(line, "@@ ") {
				if at, leftAt, in, leftIn, ok = parseRange(line); !ok || at > base || in > len(side) {
					return nil, false
				}
			}
			continue
		}
		if line == "" {
			return nil, false
		}
		if line[0] != '\\' && line[0] != '+' && line[0] != '-' && line[0] != ' ' {
			return nil, false
		}
		if (line[0] == '+' || line[0] == '-') && !open {
			edits, open = append(edits, edit{from: at, to: at}), true
		}
		switch line[0] {
		case '+':
			if in >= len(side) || leftIn == 0 {
				return nil, false
			}
			e := &edits[len(edits)-1]
			e.lines = append(e.lines, side[in])
			in, leftIn = in+1, leftIn-1
		case '-':
			if at >= base || leftAt == 0 {
				return nil, false
			}
			at, leftAt = at+1, leftAt-1
			edits[len(edits)-1].to = at
		case ' ':
			if leftAt == 0 || leftIn == 0 || at >= base {
				return nil, false
			}
			at, in, leftAt, leftIn, open = at+1, in+1, leftAt-1, leftIn-1, false
		}
	}
	for i, e := range edits {
		if i > 0 && e.from <= edits[i-1].to {
			return nil, false
		}
	}
	return edits, leftAt == 0 && leftIn == 0
}

// parseRange reads "@@ -line,count +line,count @@". Lines are counted from 0 here.
func parseRange(line string) (at, leftAt, in, leftIn int, ok bool) {
	f := strings.Fields(line)
	if len(f) < 4 || f[3] != "@@" {
		return 0, 0, 0, 0, false
	}
	read := func(s, sign string) (line, count int) {
		s, ok = strings.CutPrefix(s, sign)
		first, rest, more := strings.Cut(s, ",")
		_, err := fmt.Sscanf(first, "%d", &line)
		count = 1
		if more {
			_, err = fmt.Sscanf(rest, "%d", &count)
		}
		if count > 0 { // otherwise the number is that of the line before
			line--
		}
		ok = ok && err == nil && line >= 0 && count >= 0
		return line, count
	}
	if at, leftAt = read(f[1], "-"); !ok {
		return 0, 0, 0, 0, false
	}
	in, leftIn = read(f[2], "+")
	return at, leftAt, in, leftIn, ok
}

// region is a part of the merged file that a side changed.
type region struct {
	side       Side
	old, lines []string // before and after
	at         int      // index of the first line in the merged file
}

func (r *region) hunk() Hunk {
	var text strings.Builder
	for _, part := range []struct {
		sign  string
		lines []string
	}{{"-", r.old}, {"+", r.lines}} {
		for _, l := range part.lines {
			if text.Len()+len(l) > 2<<10 {
				break
			}
			text.WriteString(part.sign + strings.TrimSuffix(l, "\n") + "\n")
		}
	}
	return Hunk{Side: r.side, Text: strings.ToValidUTF8(text.String(), "?")}
}

// account applies the edits of both sides to the base, and compares the result with the merged
// file. Edits of both sides that overlap or touch must be the same text; it is taken once.
// Any difference is a lost hunk.
func account(base []string, ours, theirs []edit, merged []string) (lost, identical []Hunk) {
	var want []string
	var regions []region
	for at := 0; ; {
		if len(ours)+len(theirs) == 0 {
			want = append(want, base[at:]...)
			break
		}
		// The next region: edits that overlap or touch.
		from := len(base)
		for _, edits := range [][]edit{ours, theirs} {
			if len(edits) > 0 {
				from = min(from, edits[0].from)
			}
		}
		to, o, t := from, 0, 0
		for {
			if o < len(ours) && ours[o].from <= to {
				to = max(to, ours[o].to)
				o++
			} else if t < len(theirs) && theirs[t].from <= to {
				to = max(to, theirs[t].to)
				t++
			} else {
				break
			}
		}
		r := region{side: Both, old: base[from:to], lines: apply(base, from, to, ours[:o])}
		switch {
		case t == 0:
			r.side = Ours
		case o == 0:
			r.side, r.lines = Theirs, apply(base, from, to, theirs[:t])
		default:
			if other := (region{side: Theirs, old: r.old, lines: apply(base, from, to, theirs[:t])}); !slices.Equal(other.lines, r.lines) {
				r.side = Ours
				return []Hunk{r.hunk(), other.hunk()}, nil
			}
			identical = append(identical, r.hunk())
		}
		ours, theirs = ours[o:], theirs[t:]
		want = append(want, base[at:from]...)
		r.at = len(want)
		want = append(want, r.lines...)
		regions = append(regions, r)
		at = to
	}
	if slices.Equal(want, merged) {
		return nil, identical
	}
	// Name the hunks that are not there between their neighbors.
	text := strings.Join(merged, "")
	for _, r := range regions[:min(len(regions), maxListed)] {
		if around := want[max(r.at-1, 0):min(r.at+len(r.lines)+1, len(want))]; !strings.Contains(text, strings.Join(around, "")) {
			lost = append(lost, r.hunk())
		}
	}
	if len(lost) == 0 {
		lost = []Hunk{{Side: Both, Text: "the merged file differs from the changes of both sides"}}
	}
	return lost, identical
}
