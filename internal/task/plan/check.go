package plan

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/repository/filerule"
)

// everything are the globs of an item that has none.
var everything = []string{"**"}

// touches are the globs of the files that an item may change.
func touches(it words.Item) []string {
	if len(it.Touches) == 0 {
		return everything
	}
	return it.Touches
}

// Normalize returns items whose globs say by themselves what they mean in a repository with these files. "src", if that is a directory,
// becomes "src" and "src/**". A name that only one file has, or none, stands for that file and not for others in other directories:
// "parser.go" becomes "/parser.go".
func Normalize(items []words.Item, files []string) []words.Item {
	dirs := map[string]bool{}
	for _, f := range files {
		for d := path.Dir(f); d != "." && !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	items = slices.Clone(items)
	for i := range items {
		items[i].Touches, items[i].Creates = rooted(items[i].Touches, files), rooted(items[i].Creates, files)
		var all []string
		for _, g := range items[i].Touches {
			if all = append(all, g); strings.HasSuffix(g, "/") || strings.HasSuffix(g, "**") {
				continue
			}
			rule, err := filerule.Compile(api.FilePolicy{Writable: []string{g}})
			if err != nil {
				continue // Check says it
			}
			for d := range dirs {
				if below := g + "/**"; rule.Refuse(d) == "" && !slices.Contains(items[i].Touches, below) {
					all = append(all, below)
					break
				}
			}
		}
		items[i].Touches = all
	}
	return items
}

// rooted returns globs of which names that at most one file has are paths.
func rooted(globs, files []string) (out []string) {
	for _, g := range globs {
		if strings.ContainsAny(g, `/*?[\!`) || g == "" {
			out = append(out, g)
			continue
		}
		at, n := g, 0
		for _, f := range files {
			for d := f; d != "."; d = path.Dir(d) {
				if path.Base(d) == g {
					at = d
					n++
					break
				}
			}
		}
		if n > 1 && !slices.ContainsFunc(files, func(f string) bool { return !strings.HasPrefix(f, at+"/") && path.Base(f) == g }) {
			n = 1 // all are below one directory of that name
		}
		if n <= 1 {
			g = "/" + at
		}
		out = append(out, g)
	}
	return out
}

// Check refuses items that are no plan for a repository with these files: KindInvalid. Each glob must match a file or be one of the
// item's new files, and two items that may change the same file must be ordered.
func Check(items []words.Item, files []string) error {
	if err := words.Check(items); err != nil {
		return err
	}
	for _, it := range items {
		if err := checkGlobs(it, files); err != nil {
			return err
		}
	}
	before := ancestors(items)
	for i, a := range items {
		for _, b := range items[:i] {
			if before[a.ID][b.ID] || before[b.ID][a.ID] {
				continue
			}
			if x, y, ok := overlap(touches(a), touches(b)); ok {
				return api.Errorf(api.KindInvalid, "items %s and %s may change the same files (%s and %s), and neither needs the other", b.ID, a.ID, y, x).
					WithHint("order them by needs, or give them other files")
			}
		}
	}
	return nil
}

// checkGlobs refuses globs that match nothing.
func checkGlobs(it words.Item, files []string) error {
	bad := func(format string, args ...any) error {
		return api.Errorf(api.KindInvalid, "item "+it.ID+": "+format, args...)
	}
	for _, g := range append(slices.Clone(it.Touches), it.Creates...) {
		if strings.HasPrefix(g, "!") {
			return bad("%q is an exception, and touches and creates have none", g)
		}
	}
	for _, g := range it.Creates {
		if _, _, ok := overlap([]string{g}, touches(it)); !ok {
			return bad("it creates %q, which its touches do not include", g)
		}
	}
	for _, g := range it.Touches {
		rule, err := filerule.Compile(api.FilePolicy{Writable: []string{g}})
		if err != nil {
			return bad("%w", err)
		}
		if slices.ContainsFunc(files, func(f string) bool { return rule.Refuse(f) == "" }) {
			continue
		}
		if _, _, ok := overlap([]string{g}, it.Creates); !ok {
			return api.Errorf(api.KindInvalid, "item %s: %q matches no file of the repository", it.ID, g).
				WithHint("list it in creates if the item adds it")
		}
	}
	return nil
}

// overlap returns two globs of two lists that a file could match both; ok is false if there are none.
func overlap(a, b []string) (x, y string, ok bool) {
	for _, x := range a {
		for _, y := range b {
			if filerule.Overlap(x, y) {
				return x, y, true
			}
		}
	}
	return "", "", false
}

// ancestors are, for each item, those that must be completed before it.
func ancestors(items []words.Item) map[string]map[string]bool {
	out := make(map[string]map[string]bool, len(items))
	for _, level := range words.Levels(items) {
		for _, it := range level {
			all := map[string]bool{}
			for _, need := range it.Needs {
				all[need] = true
				for id := range out[need] {
					all[id] = true
				}
			}
			out[it.ID] = all
		}
	}
	return out
}
