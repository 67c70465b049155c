package offline

import (
	"math/big"
	"slices"
)

// recipes is the catalogue, group by group.
func recipes() []recipe {
	return slices.Concat(mathRecipes(), sequenceRecipes(), listRecipes(), textRecipes(),
		conversionRecipes(), algorithmRecipes(), fileRecipes(), classRecipes())
}

const (
	defaultNumbers = "4, 8, 15, 16, 23, 42, 7, 3, 19, 11"
	defaultText    = "The quick brown fox jumps over the lazy dog"
)

// amount reads what the number of a sentence bounds: "first 10", "10 primes",
// "up to 100", "the 10th", or one to look at ("is 97 prime").
func amount(r *reading, p map[string]string) bool {
	if len(r.nums) == 0 && holds(r, "check", "is", "test", "whether", "if") {
		p["mode"], p["n"] = "one", "97"
		return !holds(r, "first", "nth", "upto", "below", "under")
	}
	if len(r.nums) == 1 && r.nums[0].ordinal && holds(r, "upto", "until") {
		// "up to the 15th" are the first 15.
		p["mode"] = "first"
		return !holds(r, "first", "nth")
	}
	if len(r.nums) > 1 || holds(r, "check", "is") && len(r.nums) == 1 && holds(r, "upto", "below", "under", "first") {
		return false
	}
	mode := p["mode"]
	switch {
	case holds(r, "upto", "below", "under", "until"):
		p["mode"] = "upto"
		if holds(r, "below", "under") && len(r.nums) == 1 {
			// "below 100" leaves 100 out.
			n, ok := r.nums[0].big()
			if !ok || n.Sign() <= 0 {
				return false
			}
			p["n"] = n.Sub(n, big.NewInt(1)).String()
		}
		return len(r.nums) == 1 && !holds(r, "first", "nth")
	case holds(r, "first"):
		p["mode"] = "first"
	case holds(r, "nth"):
		p["mode"] = "nth"
	case len(r.nums) == 1 && r.nums[0].ordinal:
		p["mode"] = "nth"
	case len(r.nums) == 1 && mode == "":
		p["mode"] = "one"
	case len(r.nums) == 0 && mode == "":
		p["mode"] = "first"
	}
	return true
}

// holds reports whether the sentence holds one of the words.
func holds(r *reading, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(r.words, stem(w)) })
}

const amountWords = "first nth upto below under until number sequence series term element n "
