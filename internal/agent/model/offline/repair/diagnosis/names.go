package diagnosis

import (
	"slices"
	"strings"

	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/internal/platform/lazyregexp"
)

var reIdent = lazyregexp.New(`[A-Za-z_$][\w$]*`)

// closest finds the name that is most likely meant by a misspelt one, or "".
func closest(name string, names []string) string {
	if len(name) > 64 {
		return ""
	}
	most := 1
	if len(name) >= 5 {
		most = 2
	}
	if len(name) >= 9 {
		most = 3
	}
	best, at := "", most+1
	for _, n := range names {
		if n == name {
			continue
		}
		d := edit.Distance(strings.ToLower(name), strings.ToLower(n))
		if d < at {
			best, at = n, d
		}
	}
	return best
}

// identifiers lists the names in a source, the ones that are used most first.
func identifiers(src string) []string {
	count := map[string]int{}
	var order []string
	for _, id := range reIdent.FindAllString(src, -1) {
		if count[id]++; count[id] == 1 {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return count[b] - count[a] })
	return order
}

// renameAll replaces a name that nobody defined wherever it stands.
func renameAll(src, from, to string) string {
	return wordIn(from).ReplaceAllLiteralString(src, to)
}
