package offline

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"hortus.dev/api/plan"
)

// divide divides a request by its numbered list, or makes one item of a request without one. An item may change the files that its text
// names; one that names none may change every file, and is done after the items before it.
func divide(req plan.DivideRequest) plan.Division {
	if len(req.Done) > 0 {
		return again(req)
	}
	texts := numbered(req.Request)
	if len(texts) < 2 {
		return plan.Division{Items: []plan.Item{{ID: "all", Request: req.Request}}}
	}
	var out plan.Division
	for i, text := range texts {
		it := plan.Item{ID: fmt.Sprintf("item-%d", i+1), Request: text, Touches: filesIn(text, req.Files)}
		for j, before := range out.Items {
			if len(it.Touches) == 0 || len(before.Touches) == 0 || slices.ContainsFunc(it.Touches, func(p string) bool { return slices.Contains(before.Touches, p) }) || follows(text, j+1) {
				it.Needs = append(it.Needs, before.ID)
			}
		}
		out.Items = append(out.Items, it)
	}
	return out
}

// again keeps the items of an earlier division: another one is beyond a list.
func again(req plan.DivideRequest) (out plan.Division) {
	for _, it := range req.Done {
		out.Items = append(out.Items, it.Item)
	}
	return out
}

// numbered returns the points of a numbered list: lines that begin with "1.", "2)" and so on, with the lines below each. The numbers
// must count from 1.
func numbered(text string) (points []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), fmt.Sprint(len(points)+1))
		if ok && len(rest) > 2 && (rest[0] == '.' || rest[0] == ')') && rest[1] == ' ' {
			points = append(points, strings.TrimSpace(rest[1:]))
		} else if n := len(points); n > 0 && strings.TrimSpace(line) != "" {
			points[n-1] += "\n" + strings.TrimSpace(line)
		}
	}
	return points
}

// filesIn returns the files that a text names: by their paths, or by a name that only one file has.
func filesIn(text string, files []string) (out []string) {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n,;:()[]\"'`", r) }) {
		words[strings.TrimPrefix(strings.TrimRight(w, ".!?"), "./")] = true
	}
	count := map[string]int{}
	for _, f := range files {
		count[path.Base(f)]++
	}
	for _, f := range files {
		if words[f] || words[path.Base(f)] && count[path.Base(f)] == 1 {
			out = append(out, f)
		}
	}
	return out
}

// follows reports whether a text says that it comes after a point of the list.
func follows(text string, n int) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"after item %d", "after step %d", "after %d", "needs item %d", "needs %d"} {
		at := strings.Index(text, fmt.Sprintf(word, n))
		if at < 0 {
			continue
		}
		rest := text[at+len(fmt.Sprintf(word, n)):]
		if rest == "" || rest[0] < '0' || rest[0] > '9' {
			return true
		}
	}
	return false
}
