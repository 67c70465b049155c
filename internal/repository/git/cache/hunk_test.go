package cache

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
)

// TestAccount: every change of a correctly merged file is noticed. The merged file is known, since
// the file is made of parts that one side changed, with unchanged lines between.
func TestAccount(t *testing.T) {
	for seed := range uint64(tier.Count(200, 5000)) {
		random := rand.New(rand.NewPCG(seed, 1))
		var base, right []string
		var edits [2][]edit
		var both int
		some := func(word string) (out []string) {
			for i := range random.IntN(4) {
				out = append(out, fmt.Sprintf("%s %d.%d\n", word, len(base), i))
			}
			return out
		}
		for range 1 + random.IntN(8) {
			same := fmt.Sprintf("common %d\n", len(base))
			base, right = append(base, same), append(right, same)
			old, from := some("old"), len(base)
			base = append(base, old...)
			side := random.IntN(3) // 2: both make the same change
			lines := some([]string{"ours", "theirs", "both"}[side])
			if len(old)+len(lines) == 0 {
				continue
			}
			for s := range edits {
				if side == s || side == 2 {
					edits[s] = append(edits[s], edit{from, from + len(old), lines})
				}
			}
			both += side / 2
			right = append(right, lines...)
		}
		base, right = append(base, "end"), append(right, "end")
		lost, identical := account(base, edits[0], edits[1], right)
		if len(lost) > 0 || len(identical) != both {
			t.Fatalf("seed %d: lost %+v, identical %+v, want %d", seed, lost, identical, both)
		}
		for i := range right {
			for what, wrong := range map[string][]string{
				"without":  slices.Delete(slices.Clone(right), i, i+1),
				"twice":    slices.Insert(slices.Clone(right), i, right[i]),
				"more":     slices.Insert(slices.Clone(right), i, "more\n"),
				"exchange": slices.Concat(right[:i], right[min(i+1, len(right)-1):], right[i:i+1]),
			} {
				if slices.Equal(wrong, right) {
					continue
				}
				if lost, _ := account(base, edits[0], edits[1], wrong); len(lost) == 0 {
					t.Fatalf("seed %d: %s line %d is not noticed", seed, what, i)
				}
			}
		}
	}
	// What both sides changed differently is never right.
	base := []string{"a\n", "b\n", "c\n"}
	for _, merged := range [][]string{{"a\n", "ours\n", "c\n"}, {"a\n", "theirs\n", "c\n"}, {"a\n", "ours\n", "theirs\n", "c\n"}} {
		lost, _ := account(base, []edit{{1, 2, []string{"ours\n"}}}, []edit{{1, 2, []string{"theirs\n"}}}, merged)
		if len(lost) != 2 || lost[0].Side != Ours || lost[1].Side != Theirs {
			t.Errorf("%q: lost %+v", merged, lost)
		}
	}
}

// editor changes a file by random edits.
type editor struct {
	random *rand.Rand
	lines  []string // that both editors insert
	unique func() string
}

func (e editor) edit(base []string) []string {
	out := slices.Clone(base)
	for range 1 + e.random.IntN(3) {
		at := e.random.IntN(len(out) + 1)
		switch e.random.IntN(5) {
		case 0:
			out = slices.Delete(out, at, min(at+e.random.IntN(4), len(out)))
		case 1:
			to := min(at+e.random.IntN(3), len(out))
			out = slices.Replace(out, at, to, e.unique(), e.unique())
		case 2: // the same place and text for both, if no edit came before
			if at = slices.Index(out, base[len(base)/2]); at >= 0 && !slices.Contains(out, e.lines[0]) {
				out = slices.Insert(out, at, e.lines...)
			}
		default:
			out = slices.Insert(out, at, e.unique())
		}
	}
	return out
}

// TestMergeRandom merges random edits. In a file without a conflict the lines of each side are
// those of the side that the other has not deleted, in the side's order. The oracle knows no diff: all lines
// of the first half of the files differ. The second half has equal lines, which are counted.
func TestMergeRandom(t *testing.T) {
	const perMerge = 60
	r := fetch(t, newCache(t), gittest.NewCheckout(t, map[string]string{"zero": "0\n"}))
	conflicts, clean, identical := 0, 0, 0
	for seed := range uint64(tier.Count(1, 50)) {
		random := rand.New(rand.NewPCG(seed, 2))
		count := 0
		var sides [3]map[string][]string
		var changes [3][]Change
		for s := range sides {
			sides[s] = map[string][]string{}
		}
		for i := range perMerge {
			p := fmt.Sprint("f", i)
			var base []string
			for n := range 4 + random.IntN(40) {
				line := fmt.Sprintf("base %d\n", n)
				if i >= perMerge/2 {
					line = []string{"\n", "}\n", "\treturn\n", "x\n"}[random.IntN(4)]
				}
				base = append(base, line)
			}
			if random.IntN(4) == 0 { // no line feed at the end
				base[len(base)-1] = "end"
			}
			unique := func(word string) func() string {
				return func() string { count++; return fmt.Sprintf("%s %d\n", word, count) }
			}
			shared := []string{unique("both")(), unique("both")()}
			sides[0][p] = base
			sides[1][p] = editor{random, shared, unique("ours")}.edit(base)
			sides[2][p] = editor{random, shared, unique("theirs")}.edit(base)
			for s := range sides {
				text := strings.Join(sides[s][p], "")
				sides[s][p] = lines([]byte(text)) // an edit after a line without a feed joins them
				changes[s] = append(changes[s], file(p, text))
			}
		}
		base := commitOn(t, r, head(t, r).Hash, changes[0]...)
		ours, theirs := commitOn(t, r, base, changes[1]...), commitOn(t, r, base, changes[2]...)
		res := merged(t, r, base, ours, theirs)
		if len(res.Lost) > 0 {
			t.Fatalf("seed %d: lost %+v", seed, res.Lost)
		}
		identical += len(res.Identical)
		got := tree(t, r, res.Commit+res.Draft)
		for i := range perMerge {
			p := fmt.Sprint("f", i)
			if slices.ContainsFunc(res.Conflicts, func(c Conflict) bool { return c.Path == p }) {
				conflicts++
				if !strings.Contains(got[p], "<<<<<<< ours (merge of Hortus)\n") {
					t.Errorf("seed %d: %s has no markers:\n%s", seed, p, got[p])
				}
				continue
			}
			clean++
			if why := wrongMerge(sides[0][p], sides[1][p], sides[2][p], lines([]byte(got[p])), i < perMerge/2); why != "" {
				t.Errorf("seed %d: %s: %s\nbase\n%q\nours\n%q\ntheirs\n%q\nmerged\n%q", seed, p, why, sides[0][p], sides[1][p], sides[2][p], got[p])
			}
		}
	}
	t.Logf("%d conflicts, %d clean, %d identical hunks", conflicts, clean, identical)
	if conflicts == 0 || clean == 0 || identical == 0 {
		t.Error("a result never occurred")
	}
	// Control: the oracle notices a line of a side that is not there.
	for _, wrong := range []string{"a\nb\nt\n", "o\na\nb\n", "o\na\nb\nt\nb\n", "t\na\nb\no\n"} {
		if wrongMerge(lines([]byte("a\nb\n")), lines([]byte("o\na\nb\n")), lines([]byte("a\nb\nt\n")), lines([]byte(wrong)), true) == "" {
			t.Errorf("control: %q passes", wrong)
		}
	}
}

// wrongMerge says why a merge is wrong.
func wrongMerge(base, ours, theirs, merged []string, distinct bool) string {
	count := func(l []string) map[string]int {
		n := map[string]int{}
		for _, line := range l {
			n[line]++
		}
		return n
	}
	b, o, t, m := count(base), count(ours), count(theirs), count(merged)
	for line := range maps.Keys(m) {
		if o[line] == 0 && t[line] == 0 {
			return fmt.Sprintf("%q is from nowhere", line)
		}
	}
	for _, n := range []map[string]int{o, t} {
		for line := range n {
			sum := o[line] + t[line] - b[line] // if no change is the same
			low, high := min(sum, o[line], t[line]), max(sum, o[line], t[line])
			if b[line] == 0 && (o[line] == 0 || t[line] == 0) {
				low = high // one side has inserted it
			}
			if m[line] < low || m[line] > high {
				return fmt.Sprintf("%q is in it %d times, not %d to %d", line, m[line], low, high)
			}
		}
	}
	if !distinct {
		return ""
	}
	for _, side := range []struct{ own, other map[string]int }{{o, t}, {t, o}} {
		from := map[bool][]string{true: ours, false: theirs}[fmt.Sprint(side.own) == fmt.Sprint(o)]
		var want, have []string
		for _, line := range from {
			if b[line] == 0 || side.other[line] > 0 {
				want = append(want, line)
			}
		}
		for _, line := range merged {
			if side.own[line] > 0 {
				have = append(have, line)
			}
		}
		if !slices.Equal(want, have) {
			return fmt.Sprintf("the lines of a side are %q, want %q", have, want)
		}
	}
	return ""
}

// FuzzParseEdits: the parser takes only what is within the files.
func FuzzParseEdits(f *testing.F) {
	f.Add([]byte("--- a\n+++ b\n@@ -1,2 +1 @@\n-x\n+y\n\\ No newline at end of file\n"), 2, []byte("y"))
	f.Add([]byte("@@ -0,0 +1,2 @@\n+x\n+y\n"), 0, []byte("x\ny\n"))
	f.Add([]byte("@@ -3 +2,0 @@\n-x\n"), 3, []byte("a\nb\n"))
	f.Add([]byte("@@ -1,0 +1 @@\n+"), 0, []byte("0"))
	f.Fuzz(func(t *testing.T, patch []byte, base int, side []byte) {
		if base < 0 || base > 1000 || len(side) > 1000 {
			return
		}
		old := lines(bytes.Repeat([]byte("x\n"), base))
		edits, ok := parseEdits(patch, len(old), lines(side))
		if !ok {
			return
		}
		apply(old, 0, len(old), edits)
		if lost, _ := account(old, edits, nil, apply(old, 0, len(old), edits)); len(lost) > 0 {
			t.Errorf("lost %+v", lost)
		}
	})
}
