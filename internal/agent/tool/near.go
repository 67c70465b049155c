package tool

import (
	"fmt"
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

// near says where a text nearly holds old: with other white space, or the lines
// most like it.
func near(text, old string) string {
	text = clip(text, nearMost)
	all, want := lines(text), lines(strings.Trim(old, "\r\n"))
	if len(all) == 0 {
		return "The file is empty."
	}
	if len(want) == 0 {
		return "Give a text with more than line breaks."
	}
	if at := sameButSpace(all, want); len(at) > 0 {
		var b strings.Builder
		b.WriteString("It is there with other white space; copy it exactly from here:\n")
		for _, i := range at {
			part, _ := numbered(all[i:min(i+len(want), i+nearLines, len(all))], i+1, maxText/nearPlaces)
			b.WriteString(part)
		}
		return b.String()
	}
	at := mostAlike(all, want)
	if len(at) == 0 {
		return "Nothing in it is like it; view the file again."
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
	for _, i := range indexAll(a, w, nearPlaces) {
		at = append(at, i)
	}
	return at
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
	pairs := bigrams(want[key])
	if len(pairs) == 0 {
		return nil
	}
	type place struct {
		line  int
		score float64
	}
	var best []place
	for i, l := range all {
		score := alike(pairs, bigramCount(want[key]), l)
		if score < nearSame {
			continue
		}
		best = append(best, place{max(i-key, 0), score})
		if len(best) > 64 {
			slices.SortStableFunc(best, func(a, b place) int { return compare(b.score, a.score) })
			best = best[:nearPlaces]
		}
	}
	slices.SortStableFunc(best, func(a, b place) int { return compare(b.score, a.score) })
	var at []int
	for _, p := range best[:min(len(best), nearPlaces)] {
		if !slices.Contains(at, p.line) {
			at = append(at, p.line)
		}
	}
	return at
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// short is what of a line is compared.
func short(l string) string {
	l = strings.TrimSpace(l)
	return l[:min(len(l), nearScan)]
}

func bigramCount(l string) int { return max(len(short(l))-1, 0) }

// bigrams counts the pairs of neighbouring bytes of a line.
func bigrams(l string) map[[2]byte]int {
	l = short(l)
	m := map[[2]byte]int{}
	for i := 0; i+1 < len(l); i++ {
		m[[2]byte{l[i], l[i+1]}]++
	}
	return m
}

// alike is Dice's coefficient of two lines' pairs, from 0 to 1.
func alike(pairs map[[2]byte]int, n int, l string) float64 {
	m := bigramCount(l)
	if m == 0 || n == 0 || 2*float64(min(m, n))/float64(m+n) < nearSame {
		return 0 // lengths that far apart cannot be like enough
	}
	l = short(l)
	left := map[[2]byte]int{}
	common := 0
	for i := 0; i+1 < len(l); i++ {
		p := [2]byte{l[i], l[i+1]}
		if left[p] < pairs[p] {
			left[p]++
			common++
		}
	}
	return 2 * float64(common) / float64(m+n)
}

// problem is a syntax error.
type problem struct {
	line, column int // from 1; 0 when unknown
	text         string
}

func (p *problem) String() string {
	text := clip(visible(p.text), 200)
	switch {
	case p.line <= 0:
		return text
	case p.column <= 0:
		return fmt.Sprintf("line %d: %s", p.line, text)
	}
	return fmt.Sprintf("line %d, column %d: %s", p.line, p.column, text)
}
