package offline

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// kind is what a parameter is.
type kind int

const (
	integer kind = iota // one whole number
	decimal             // one number
	numbers             // a list of numbers
	text                // quoted text
	texts               // several quoted texts, or one that commas divide
	file                // a file name
	link                // a URL
	date                // YYYY-MM-DD
	roman               // a Roman numeral
	choice              // one of a few words
	set                 // some of a few words
	flag                // "true" when a JSON answer is wanted
)

// param is one value that a recipe reads from a sentence.
type param struct {
	name string
	kind kind
	def  string // used when the sentence has none; "" means it must have one
	// min and max bound an integer.
	min, max int64
	// optional lets a sentence name the numbers before this one alone.
	optional bool
	// words are the choices: "bubble=bubble insertion=insertion".
	words string
}

// recipe is one task of the catalogue.
type recipe struct {
	name string
	// phrase is what it does, for a person; task is the plan's wording, a
	// text/template over the parameters.
	phrase, task string
	// needs are groups of words; the sentence must hold one of each group.
	needs []string
	// also are words that it may hold beside those and the generic ones.
	also   string
	params []param
	// derive finishes the parameters, where what a number means depends on the
	// words around it. It returns false when the sentence is no match after all.
	derive func(r *reading, p map[string]string) bool
	output api.OutputKind // "" is text
	// only is set when the recipe exists in one language.
	only api.Language
	// deps are third-party modules that the program names.
	deps []string
	// decides is set if it answers a question with yes or no, ordinals if it takes "the 5th".
	decides, ordinals bool
}

// match is one recipe that a sentence may mean.
type match struct {
	recipe *recipe
	params map[string]string
	score  int
	// refuse is why the sentence means this recipe but cannot be done.
	refuse string
	// example is true if the program works on data of the catalogue.
	example bool
}

// try holds a sentence against a recipe. It returns nil when any word, number or
// text of the sentence is left over.
func (rc *recipe) try(r *reading) *match {
	allowed := vocabulary(rc.also)
	score := 0
	for _, group := range rc.needs {
		hit := false
		for alt := range strings.SplitSeq(group, "|") {
			st := stem(alt)
			allowed[st] = true
			hit = hit || slices.Contains(r.words, st)
		}
		if !hit {
			return nil
		}
		score += 2
	}
	for _, p := range rc.params {
		for c := range strings.FieldsSeq(p.words) {
			word, _, _ := strings.Cut(c, "=")
			allowed[stem(word)] = true
		}
	}
	for _, w := range r.words {
		if !allowed[w] && !generic[w] {
			return nil
		}
		if allowed[w] {
			score++
		}
	}
	if r.lang != "" && rc.only != "" && r.lang != rc.only {
		return nil
	}
	if !rc.ordinals && slices.ContainsFunc(r.nums, func(n number) bool { return n.ordinal }) {
		return nil
	}
	m := &match{recipe: rc, params: map[string]string{}, score: score}
	if !m.fill(r) {
		return nil
	}
	if rc.derive != nil && !rc.derive(r, m.params) {
		return nil
	}
	// A question is not answered with a list, and what a request refers to is no example of the catalogue.
	if mode := m.params["mode"]; r.asks && (!rc.decides || mode != "" && mode != "one") {
		return nil
	}
	if m.example && slices.ContainsFunc(r.words, func(w string) bool { return deictic[w] }) {
		return nil
	}
	m.refuse = rc.bound(m.params)
	return m
}

// fill reads the parameters; false when something is missing or left over.
func (m *match) fill(r *reading) bool {
	nums, txts, files := slices.Clone(r.nums), slices.Clone(r.texts), slices.Clone(r.files)
	urls, dates, romans := slices.Clone(r.urls), slices.Clone(r.dates), slices.Clone(r.romans)
	json := r.asJSON
	some, missing := false, false
	take := func(from *[]string, p param) bool {
		if len(*from) == 0 {
			missing = missing || p.kind == text || p.kind == date
			m.example = m.example || p.kind == text || p.kind == date || p.kind == link
			m.params[p.name] = p.def
			return p.def != ""
		}
		some = some || p.kind == text || p.kind == date
		m.params[p.name], *from = (*from)[0], (*from)[1:]
		return true
	}
	given, missed := false, false
	for _, p := range m.recipe.params {
		ok := true
		switch p.kind {
		case integer, decimal:
			if len(nums) > 0 {
				m.params[p.name], nums, given = nums[0].text, nums[1:], true
				break
			}
			missed = missed || !p.optional
			m.params[p.name] = p.def
			ok = p.def != "" || p.optional
		case numbers:
			list, rest, fits := takeList(nums)
			if nums = rest; !fits {
				return false
			}
			if m.params[p.name] = list; list == "" {
				m.params[p.name] = p.def
				m.example, ok = true, p.def != ""
			}
		case text:
			ok = take(&txts, p)
		case texts:
			if len(txts) == 0 {
				m.params[p.name], m.example = p.def, true
				break
			}
			m.params[p.name], txts = joinTexts(txts), nil
		case file:
			ok = take(&files, p)
		case link:
			ok = take(&urls, p)
		case date:
			ok = take(&dates, p)
		case roman:
			ok = take(&romans, p)
		case choice, set:
			m.params[p.name], ok = chosen(r, p)
		case flag:
			if json {
				m.params[p.name], json = "true", false
			}
		}
		if !ok {
			return false
		}
	}
	// Half of what belongs together is no answer: "gcd of 12".
	if given && missed || some && missing {
		return false
	}
	return len(nums)+len(txts)+len(files)+len(urls)+len(dates)+len(romans) == 0 && !json
}

// takeList takes a list of at least two numbers that only commas and "and"
// divide; a single number before it may say how many there are.
func takeList(nums []number) (list string, rest []number, ok bool) {
	if len(nums) == 0 {
		return "", nil, true
	}
	byRun := map[int][]number{}
	var runs []int
	for _, n := range nums {
		if byRun[n.run] == nil {
			runs = append(runs, n.run)
		}
		byRun[n.run] = append(byRun[n.run], n)
	}
	for i, run := range runs {
		l := byRun[run]
		if len(l) < 2 {
			continue
		}
		var parts []string
		for _, n := range l {
			parts = append(parts, n.text)
			if n.ordinal {
				return "", nil, false
			}
		}
		for j, other := range runs {
			if j == i {
				continue
			}
			o := byRun[other]
			if len(o) == 1 && j < i && o[0].text == strconv.Itoa(len(l)) && !o[0].ordinal && vocabulary("number value integer element")[o[0].after] &&
				generic[o[0].before] {
				continue // "the 3 numbers 4, 5 and 6"
			}
			rest = append(rest, o...)
		}
		return strings.Join(parts, ", "), rest, true
	}
	return "", nums, true
}

// joinTexts makes lines of several texts, or of one that commas divide.
func joinTexts(txts []string) string {
	if len(txts) > 1 {
		return strings.Join(txts, "\n")
	}
	one := strings.ReplaceAll(strings.ReplaceAll(txts[0], ", and ", ", "), " and ", ", ")
	if !strings.Contains(one, ",") {
		return strings.Join(strings.Fields(txts[0]), "\n")
	}
	var out []string
	for p := range strings.SplitSeq(one, ",") {
		if p = strings.Trim(p, " \t\"'[]"); p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n")
}

// chosen finds which of a parameter's words the sentence holds. A choice that is
// made twice, differently, is no choice.
func chosen(r *reading, p param) (string, bool) {
	var got []string
	for c := range strings.FieldsSeq(p.words) {
		word, value, _ := strings.Cut(c, "=")
		if slices.Contains(r.words, stem(word)) && !slices.Contains(got, value) {
			got = append(got, value)
		}
	}
	switch {
	case len(got) == 0:
		return p.def, true
	case p.kind == set:
		return strings.Join(got, ","), true
	}
	return got[0], len(got) == 1
}

// bound returns why a parameter is beyond what the program can do, or "". It holds
// for parameters that come with a hand-made plan, too.
func (rc *recipe) bound(params map[string]string) string {
	for _, p := range rc.params {
		v := params[p.name]
		if len(v) > 8<<10 {
			return p.name + " is too long"
		}
		if v == "" && p.optional && p.def == "" {
			continue
		}
		switch p.kind {
		case integer:
			n, ok := new(big.Int).SetString(v, 10)
			if !ok {
				return p.name + " must be a whole number, not " + v
			}
			if n.Cmp(big.NewInt(p.min)) < 0 || n.Cmp(big.NewInt(p.max)) > 0 {
				return p.name + " = " + v + " is out of bounds; from " + big.NewInt(p.min).String() + " to " + big.NewInt(p.max).String() + " is possible"
			}
		case decimal:
			if !isDecimal(v) {
				return p.name + " must be a number, not " + v
			}
		case numbers:
			for part := range strings.SplitSeq(v, ",") {
				if !isDecimal(strings.TrimSpace(part)) {
					return p.name + " must be numbers, not " + v
				}
			}
		case choice, set:
			for part := range strings.SplitSeq(v, ",") {
				if v != p.def && !strings.Contains(" "+p.words+" ", "="+part+" ") && !rc.derives(part) {
					return p.name + " = " + v + " is not known"
				}
			}
		case file:
			if v == "" || strings.Contains(v, "..") || strings.HasPrefix(v, "/") {
				return "the file name " + v + " is not a plain relative name"
			}
		}
	}
	return ""
}

// derives reports whether a choice's value is one that derive may set.
func (rc *recipe) derives(v string) bool {
	return rc.derive != nil && isWord(v)
}

func isWord(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return s != ""
}

func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, frac, dot := strings.Cut(s, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" && len(s) < 400 }
	return digits(whole) && (!dot || digits(frac))
}
