package repair

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

// lookScript tells where this is, which files changed lately, and which sources
// there are, with their sizes.
const lookScript = `pwd
echo '[recent]'
git log -n 30 --name-only --format= 2>/dev/null | grep . | head -n 60
echo '[sources]'
{ git ls-files -co --exclude-standard 2>/dev/null || find . -type f; } | sed 's,^\./,,' |
	grep -E '\.(py|js|mjs|cjs|go)$' | grep -vE '(^|/)(node_modules|vendor|\.?venv|site-packages|\.git)/' |
	head -n 300 | while IFS= read -r f; do [ -f "$f" ] && [ ! -L "$f" ] && echo "$(grep -c '' "$f") $(($(wc -c <"$f"))) $f"; done
true`

// tree is what the look said.
type tree struct {
	root   string
	recent []string
	files  []entry
}

type entry struct {
	path         string
	lines, bytes int
}

var reEntry = lazyregexp.New(`^(\d+) (\d+) (.+)$`)

func readTree(text string) tree {
	var t tree
	part := ""
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRight(l, "\r")
		switch {
		case l == "[recent]" || l == "[sources]":
			part = l
		case part == "" && strings.HasPrefix(l, "/"):
			t.root = l
		case part == "[recent]":
			if !slices.Contains(t.recent, l) {
				t.recent = append(t.recent, l)
			}
		case part == "[sources]":
			if m := reEntry.FindStringSubmatch(l); m != nil && !strings.ContainsAny(m[3], "\"\\") {
				t.files = append(t.files, entry{m[3], atoi(m[1]), atoi(m[2])})
			}
		}
	}
	return t
}

const (
	// maxRead bounds what is viewed of a repository without files that a traceback names, in bytes; maxViews what is
	// viewed of all, in calls.
	maxRead  = 160 << 10
	maxViews = 60
	// viewBytes is what one view may show without being cut.
	viewBytes = 7_000
	viewLines = 380
)

// choose takes the files to read: those that the failure names, their namesakes,
// what changed lately, and then what there is room for. A file that a traceback names is read whatever its size, as far
// as there are views for it: its edits are those around the lines that the traceback and the trace name.
func (t tree) choose(output string) (out, skipped []entry) {
	known := map[string]bool{}
	for _, f := range t.files {
		known[f.path] = true
	}
	score, framed := map[string]int{}, map[string]bool{}
	for i, f := range edit.Frames(output, t.root, func(s string) bool { return known[s] }) {
		score[f.Path] += max(1, 40-i)
		framed[f.Path] = true
	}
	stems := map[string]bool{}
	for _, f := range t.files {
		base := path.Base(f.path)
		if strings.Contains(output, base) || strings.Contains(output, stemOf(base)) {
			score[f.path] += 10
		}
		if edit.IsTest(f.path) && score[f.path] > 0 {
			stems[stemOf(base)] = true
		}
	}
	for _, f := range t.files {
		if !edit.IsTest(f.path) {
			score[f.path] += 5
			if stems[stemOf(path.Base(f.path))] {
				score[f.path] += 30
			}
		}
		if i := slices.Index(t.recent, f.path); i >= 0 {
			score[f.path] += max(1, 12-i)
		}
	}
	list := slices.Clone(t.files)
	slices.SortStableFunc(list, func(a, b entry) int { return score[b.path] - score[a.path] })
	total, views := 0, 0
	for _, f := range list {
		n := f.views()
		if views+n > maxViews || !framed[f.path] && (f.bytes > maxRead/2 || total+f.bytes > maxRead) {
			skipped = append(skipped, f)
			continue
		}
		views += n
		if f.bytes <= maxRead/2 {
			total += f.bytes
		}
		out = append(out, f)
	}
	return out, skipped
}

// stemOf is a file's name without what makes it a test.
func stemOf(base string) string {
	s := strings.TrimSuffix(base, path.Ext(base))
	for _, x := range []string{"_test", ".test", ".spec", "-test", "_spec"} {
		s = strings.TrimSuffix(s, x)
	}
	return strings.TrimPrefix(s, "test_")
}

// step is how many lines of a file one view shows.
func (e entry) step() int {
	per := e.bytes/max(e.lines, 1) + 8
	return min(viewLines, max(20, viewBytes/per))
}

func (e entry) views() int { return (e.lines + e.step() - 1) / e.step() }

// views makes the calls that show the files whole.
func views(files []entry) []model.Call {
	var calls []model.Call
	for _, f := range files {
		for from := 1; from <= f.lines; from += f.step() {
			calls = append(calls, call("view", map[string]any{"path": f.path, "start_line": from, "end_line": min(from+f.step()-1, f.lines)}))
		}
	}
	return calls
}

var reViewLine = lazyregexp.New(`^\s*(\d+)\t(.*)$`)

// readViews puts files together from what the views showed. A file with a gap is
// left out.
func readViews(files []entry, results []string) []edit.File {
	var out []edit.File
	n := 0
	for _, f := range files {
		lines, whole := []string{}, true
		for from := 1; from <= f.lines; from += f.step() {
			for l := range strings.SplitSeq(results[n], "\n") {
				m := reViewLine.FindStringSubmatch(l)
				if m == nil {
					continue
				}
				if atoi(m[1]) != len(lines)+1 {
					whole = whole && atoi(m[1]) <= len(lines)
					continue
				}
				lines = append(lines, m[2])
			}
			n++
		}
		text := strings.Join(lines, "\n")
		if !whole || len(lines) != f.lines || strings.Contains(text, "\r") || strings.ToValidUTF8(text, "") != text {
			continue
		}
		out = append(out, edit.File{Path: f.path, Text: text + "\n"})
	}
	return out
}
