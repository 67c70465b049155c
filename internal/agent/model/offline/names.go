package offline

import (
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var reIdent = lazyregexp.New(`[A-Za-z_$][\w$]*`)

// distance is the number of letters to insert, delete, replace or swap to make b
// of a; it stops counting above 3.
func distance(a, b string) int {
	if len(a)-len(b) > 3 || len(b)-len(a) > 3 {
		return 4
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

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
		d := distance(strings.ToLower(name), strings.ToLower(n))
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
