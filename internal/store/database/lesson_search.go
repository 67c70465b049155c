package database

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// collection is a set of texts that are searched for words, by the function BM25: the rarer a word is in the texts, the
// more it counts, and the less the longer a text is.
type collection struct {
	seqs  []int64
	words []map[string]int // how often each text has each word
	sizes []int            // the number of words of each text
	sum   int
}

// The usual parameters of BM25: how soon more of the same word stops to count, and how much the length of a text does.
const (
	saturation   = 1.2
	lengthFactor = 0.75
)

// add adds a text.
func (c *collection) add(seq int64, text string) {
	words, n := map[string]int{}, 0
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		words[w]++
		n++
	}
	c.seqs, c.words, c.sizes = append(c.seqs, seq), append(c.words, words), append(c.sizes, n)
	c.sum += n
}

// search returns the texts that have any of some words, the best first, and of equal ones the one with the largest number.
func (c *collection) search(words []string) []int64 {
	type match struct {
		seq   int64
		score float64
	}
	scores := make([]float64, len(c.seqs))
	for _, w := range words {
		w = strings.ToLower(w)
		having := 0
		for _, text := range c.words {
			if text[w] > 0 {
				having++
			}
		}
		rarity := math.Log(1 + (float64(len(c.seqs)-having)+0.5)/(float64(having)+0.5))
		for i, text := range c.words {
			n := float64(text[w])
			length := float64(c.sizes[i]) * float64(len(c.seqs)) / float64(max(1, c.sum))
			scores[i] += rarity * n * (saturation + 1) / (n + saturation*(1-lengthFactor+lengthFactor*length))
		}
	}
	var found []match
	for i, s := range scores {
		if s > 0 {
			found = append(found, match{c.seqs[i], s})
		}
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.seq, a.seq)) })
	seqs := make([]int64, len(found))
	for i, m := range found {
		seqs[i] = m.seq
	}
	return seqs
}
