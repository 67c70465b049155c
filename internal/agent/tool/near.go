package tool

import (
	"cmp"
	"slices"
	"strings"
)

// Bounds of the search for what was meant.
const (
	nearPlaces = 3
	nearLines  = 12      // shown of each
	nearScan   = 512     // bytes of a line that are compared
	nearSame   = 0.5     // how alike a line must be to be shown
	nearMost   = 2 << 20 // bytes of a text that are looked through
)

// near returns where a text nearly holds old: with other white space, or the lines
// most like it.
func near(text, old string) string {
	text = clip(text, nearMost)
	all, want := lines(text), lines(strings.Trim(old, "\r\n"))
	if len(all) == 0 {
		return "The file is empty."
	}
	if len(want) == 0 {
		return "old must contain more than line breaks."
	}
	if at := sameButSpace(all, want); len(at) > 0 {
		var b strings.Builder
		b.WriteString("The text occurs with different white space. Copy it exactly from here:\n")
		for _, i := range at {
			part, _ := numbered(all[i:min(i+len(want), i+nearLines, len(all))], i+1, maxText/nearPlaces)
			b.WriteString(part)
		}
		return b.String()
	}
	at := mostAlike(all, want)
	if len(at) == 0 {
		return "The file has no similar lines. View the file again."
	}
	var b strings.Builder
	b.WriteString("The most similar lines are:\n")
	for _, i := range at {
		from := max(i-1, 0)
		part, _ := numbered(all[from:min(i+min(len(want), nearLines)+1, len(all))], from+1, maxText/4)
		b.WriteString(part)
		b.WriteString("...\n")
	}
	return strings.TrimSuffix(b.String(), "...\n")
}

// sameButSpace finds where want stands when white space does not count, up to
// nearPlaces times. Lines that are empty but for it stand for themselves.
func sameButSpace(all, want []string) (at []int) {
	squeeze := func(in []string) []string {
		out := make([]string, len(in))
		for i, l := range in {
			out[i] = strings.Join(strings.Fields(l), "")
		}
		return out
	}
	a, w := squeeze(all), squeeze(want)
	if strings.Join(w, "") == "" {
		return nil
	}
	// One line may be a part of one.
	if len(w) == 1 {
		for i, l := range a {
			if strings.Contains(l, w[0]) && len(at) < nearPlaces {
				at = append(at, i)
			}
		}
		return at
	}
	return indexAll(a, w, nearPlaces)
}

// indexAll finds w in a, at most n times, without comparing every pair (Knuth,
// Morris and Pratt).
func indexAll(a, w []string, n int) (at []int) {
	back := make([]int, len(w))
	for i, k := 1, 0; i < len(w); i++ {
		for k > 0 && w[i] != w[k] {
			k = back[k-1]
		}
		if w[i] == w[k] {
			k++
		}
		back[i] = k
	}
	k := 0
	for i := range a {
		for k > 0 && a[i] != w[k] {
			k = back[k-1]
		}
		if a[i] == w[k] {
			k++
		}
		if k == len(w) {
			at = append(at, i-len(w)+1)
			if len(at) == n {
				break
			}
			k = back[k-1]
		}
	}
	return at
}

// mostAlike finds where lines stand that are like want: it looks for want's
// longest line, and gives the places at which want would begin.
func mostAlike(all, want []string) []int {
	key := 0
	for i, l := range want {
		if len(strings.TrimSpace(l)) > len(strings.TrimSpace(want[key])) {
			key = i
		}
	}
	like := newLikeness(want[key])
	if like.n == 0 {
		return nil
	}
	type place struct {
		line  int
		score float64
	}
	var best []place
	for i, l := range all {
		score := like.to(l)
		if score < nearSame {
			continue
		}
		best = append(best, place{max(i-key, 0), score})
		if len(best) > 64 {
			slices.SortStableFunc(best, func(a, b place) int { return cmp.Compare(b.score, a.score) })
			best = best[:nearPlaces]
		}
	}
	slices.SortStableFunc(best, func(a, b place) int { return cmp.Compare(b.score, a.score) })
	var at []int
	for _, p := range best[:min(len(best), nearPlaces)] {
		if !slices.Contains(at, p.line) {
			at = append(at, p.line)
		}
	}
	return at
}

// short is what of a line is compared.
func short(l string) string {
	l = strings.TrimSpace(l)
	return l[:min(len(l), nearScan)]
}

// likeness compares one line with many.
type likeness struct {
	pairs [1 << 16]int16 // how often each pair of neighbouring bytes stands in it
	n     int            // how many pairs it has
}

func newLikeness(l string) *likeness {
	l = short(l)
	k := &likeness{n: max(len(l)-1, 0)}
	for i := 0; i+1 < len(l); i++ {
		k.pairs[pair(l, i)]++
	}
	return k
}

func pair(l string, i int) int { return int(l[i])<<8 | int(l[i+1]) }

// to is Dice's coefficient of the pairs of both lines, from 0 to 1.
func (k *likeness) to(l string) float64 {
	l = short(l)
	m := len(l) - 1
	if m < 1 || 2*float64(min(m, k.n))/float64(m+k.n) < nearSame {
		return 0 // lengths that far apart cannot be like enough
	}
	common := 0
	for i := range m { // each pair of it counts once
		if k.pairs[pair(l, i)] > 0 {
			common++
		}
		k.pairs[pair(l, i)]--
	}
	for i := range m {
		k.pairs[pair(l, i)]++
	}
	return 2 * float64(common) / float64(m+k.n)
}
