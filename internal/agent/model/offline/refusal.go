package offline

import (
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
	"hortus.dev/internal/platform/lazyregexp"
)

const (
	// maxNearest is how many entries a refusal names.
	maxNearest = 3
	// maxUnknown is how many unknown words a refusal quotes.
	maxUnknown = 6
	// maxQuoted bounds what a refusal quotes of a request, in characters.
	maxQuoted = 120
)

var reAnyWord = lazyregexp.New(`[\pL][\pL\d]*`)

// refuse declines a sentence for which the catalogue has no program: with what is unknown
// in it, the nearest entries and the next step.
func (c *catalogue) refuse(sentence string, r *reading) error {
	near := c.nearest(r)
	var unknown []string
	known := 0
	for _, w := range r.words {
		switch {
		case generic[w] || w == "about" || slices.Contains(unknown, w):
		case len(near) > 0 && near[0].words()[w]:
			known++
		default:
			unknown = append(unknown, w)
		}
	}
	if len(unknown) > known {
		near = nil // what they share is by chance
	}
	return decline(whyNot(sentence, r, near, unknown), c.examplesOf(near))
}

// whyNot returns what keeps a sentence from meaning an entry.
func whyNot(sentence string, r *reading, near []*recipe, unknown []string) string {
	said := quoted(sentence)
	if m := reNamed.FindStringSubmatch(sentence); m != nil && r.lang == "" {
		name := m[1]
		if l, ok := language.Named(name); ok {
			name = l.Title
		}
		return fmt.Sprintf("%s requests a program in %s; the catalogue has Python and JavaScript", said, name)
	}
	switch {
	case len(unknown) > 0 && len(near) > 0:
		return fmt.Sprintf("%s requests more than the closest entry of the catalogue (%s), which does not support %s", said, near[0].phrase, asWritten(sentence, unknown))
	case len(unknown) > 0:
		return fmt.Sprintf("%s requests something that is not in the catalogue: no entry matches %s", said, asWritten(sentence, unknown))
	case len(near) > 0:
		return fmt.Sprintf("%s does not match the closest entry of the catalogue (%s): %s", said, near[0].phrase, near[0].misfit(r))
	}
	return said + " does not name a task of the catalogue"
}

// misfit returns what of a sentence, whose words a recipe knows, it cannot use.
func (rc *recipe) misfit(r *reading) string {
	takes := func(kinds ...kind) bool {
		return slices.ContainsFunc(rc.params, func(p param) bool { return slices.Contains(kinds, p.kind) })
	}
	switch {
	case len(r.files) > 0 && !takes(file):
		return fmt.Sprintf("it does not read or write a file such as %.80q", r.files[0])
	case len(r.urls) > 0 && !takes(link):
		return fmt.Sprintf("it does not use a URL such as %.80q", r.urls[0])
	case len(r.texts) > 0 && !takes(text, texts):
		return fmt.Sprintf("it does not use the text %.80q", r.texts[0])
	case len(r.dates) > 0 && !takes(date):
		return fmt.Sprintf("it does not use the date %s", r.dates[0])
	case len(r.nums) > 0 && !takes(integer, decimal, numbers):
		return fmt.Sprintf("it does not use the number %.80s", r.nums[0].text)
	case r.asJSON && !takes(flag):
		return "it does not print JSON"
	case rc.only != "" && r.lang != "" && r.lang != rc.only:
		return fmt.Sprintf("it is in %s only", rc.only)
	}
	return "a number, text or word is missing or left over, or the request can mean more than one entry"
}

// quoted is the beginning of a request between quotation marks.
func quoted(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if list := []rune(s); len(list) > maxQuoted {
		s = string(list[:maxQuoted]) + "..."
	}
	return fmt.Sprintf("%q", s)
}

// asWritten lists the words of a sentence that have these stems, as they stand in it.
func asWritten(sentence string, stems []string) string {
	raw := map[string]string{}
	for _, w := range reAnyWord.FindAllString(sentence, -1) {
		if _, ok := raw[stem(w)]; !ok {
			raw[stem(w)] = w
		}
	}
	var out []string
	for _, s := range stems[:min(len(stems), maxUnknown)] {
		if w := raw[s]; w != "" {
			s = w
		}
		out = append(out, fmt.Sprintf("%.40q", s))
	}
	if n := len(stems) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("%d more words", n))
	}
	return strings.Join(out, ", ")
}

// words are all that a request for the recipe may hold beside generic words.
func (rc *recipe) words() map[string]bool {
	all := vocabulary(rc.also)
	for _, group := range rc.needs {
		for w := range strings.SplitSeq(group, "|") {
			all[stem(w)] = true
		}
	}
	for _, p := range rc.params {
		for c := range strings.FieldsSeq(p.words) {
			word, _, _ := strings.Cut(c, "=")
			all[stem(word)] = true
		}
	}
	return all
}

// nearest returns the recipes that share most with a sentence, the nearest first. A word
// that a recipe needs counts more than one that it allows.
func (c *catalogue) nearest(r *reading) []*recipe {
	type candidate struct {
		rc    *recipe
		score int
	}
	var list []candidate
	for i := range c.recipes {
		rc := &c.recipes[i]
		about := vocabulary(strings.Join(reAnyWord.FindAllString(rc.phrase, -1), " "))
		allowed := rc.words()
		score := 0
		seen := map[string]bool{}
		for _, w := range r.words {
			if generic[w] || seen[w] {
				continue
			}
			seen[w] = true
			switch {
			case needs(rc, w):
				score += 4
			case about[w]:
				score += 3
			case allowed[w]:
				score++
			}
		}
		if score >= 3 {
			list = append(list, candidate{rc, score})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return b.score - a.score })
	var out []*recipe
	for _, x := range list[:min(len(list), maxNearest)] {
		out = append(out, x.rc)
	}
	return out
}

// needs reports whether a stem is among the words of which a recipe needs one.
func needs(rc *recipe, st string) bool {
	return slices.ContainsFunc(rc.needs, func(group string) bool {
		return slices.ContainsFunc(strings.Split(group, "|"), func(w string) bool { return stem(w) == st })
	})
}

// outOfBounds declines a request that means the recipe with a value that it cannot take.
func (rc *recipe) outOfBounds(c *catalogue, why string) error {
	return decline("it has "+rc.phrase+", but not for this request: "+why, c.examplesOf([]*recipe{rc}))
}

// examplesOf are the example requests of recipes.
func (c *catalogue) examplesOf(list []*recipe) []string {
	var out []string
	for _, rc := range list {
		out = append(out, c.examples[rc.name])
	}
	return out
}

// declined returns what is beyond the model, and what to do.
func declined(why string) error { return decline(why, nil) }

// decline is declined with the example requests that come nearest.
func decline(why string, nearest []string) error {
	hint := ""
	if len(nearest) > 0 {
		for i, example := range nearest {
			nearest[i] = "hortus run '" + strings.ReplaceAll(example, "'", `'\''`) + "'"
		}
		hint = "Nearest: " + strings.Join(nearest, "; ") + ". "
	}
	return api.Errorf(api.KindDeclined, "the offline model declines: %s", why).WithHint("%s", hint+
		"It has a catalogue of small Python and JavaScript programs: hortus model catalogue lists them with examples. "+
		"It also runs a program that you give, in "+language.Titles()+": hortus run 'Run this Python: print(6*7)'. "+
		"A language model does this: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start Ollama with a model that calls tools, and run it again; or add --model anthropic or --model openai.")
}
