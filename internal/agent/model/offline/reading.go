package offline

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// reading is a sentence taken apart: everything that carries meaning is in one of
// its fields, and a recipe must account for all of it.
type reading struct {
	lang    api.Language // "" when the sentence names none
	words   []string     // stems, in order
	nums    []number
	texts   []string // quoted, or after a colon
	files   []string
	urls    []string
	dates   []string
	romans  []string
	asJSON  bool
	problem string // why the sentence cannot be read, or ""
	// unquoted is the text after a colon, which nothing ends but the sentence.
	unquoted string
	// asks is true for a question with the answer yes or no, and single if the sentence has "a" or "one" before what
	// is made.
	asks, single bool
}

// number is one number of a sentence.
type number struct {
	text    string // digits with sign and decimal point
	run     int    // numbers that only commas and "and" separate share a run
	ordinal bool   // "30th"
	before  string // the stem of the word before, "" at a start
	after   string // the stem of the word after
	plural  bool   // the word after ends with s
	at      int    // how many words stand before it
}

// big returns the value of an integer.
func (n number) big() (*big.Int, bool) { return new(big.Int).SetString(n.text, 10) }

var (
	reQuoted     = lazyregexp.New("(?s)\"([^\"]*)\"|“([^”]*)”|«([^»]*)»|`([^`]+)`|(?:^|[\\s(\\[,:])['‘]([^'’\\n]*)['’](?:$|[\\s,.;:!?)\\]])")
	reURL        = lazyregexp.New(`\b[a-z][a-z0-9+.-]*://[^\s"'<>]+[^\s"'<>.,;:!?)]`)
	reDate       = lazyregexp.New(`\b\d{4}-\d{2}-\d{2}\b`)
	reLang       = lazyregexp.New(`(?i)\b(?:(python|py)(?:\s?[23](?:\.\d+)*)?|(javascript|java script|js|nodejs|node(?:\s\d+)?|ecmascript|es6))\b`)
	reFile       = lazyregexp.New(`(?i)(?:\./)?\b[\w-]+(?:/[\w-]+)*\.(?:csv|txt|json|md|log|tsv|xml|html|ya?ml|pdf|xlsx?|png|jpe?g|db|sqlite|zip|gz|py|js|dat|ini|toml|parquet)\b`)
	reRoman      = lazyregexp.New(`\b[MDCLXVI]{2,15}\b`)
	reNumber     = lazyregexp.New(`(?i)(^|[^\w.])(-?\d+(?:[ ,_]\d{3})*(?:\.\d+)?(?:e\d{1,2})?)(-?(?:st|nd|rd|th))?\b(?:\s*(thousand|million|billion))?`)
	reJSON       = lazyregexp.New(`(?i)\b(?:(?:print|output|display|show|return|write|format)\w*\s+(?:it|them|this|the results?|the output|the answer)?\s*)?(?:as|in|into)\s+(?:valid\s+|an?\s+)?json(?:\s+(?:object|array|list|format|output|document))?\b`)
	reWord       = lazyregexp.New(`^(?:[\pL][\pL\d]*|[+*/%^=<>&|~]+)`)
	rePossessive = lazyregexp.New(`(\pL)'s\b`)
	rePower      = lazyregexp.New(`(\d)\s*(?:\^|\*\*)\s*(-?\d)`)
	reLetterN    = lazyregexp.New(`\bn\s*=\s*`)
	reRomanWord  = lazyregexp.New(`(?i)\broman\b`)
	reNodeJS     = lazyregexp.New(`(?i)\bnode\.js\b`)
	reAsked      = lazyregexp.New(`(?i)^\s*(?:is|are|was|were|does|do|did|has|have)\b|\b(?:if|whether)\b`)
	reSingle     = lazyregexp.New(`(?i)\b(?:an?|one) (?:random (?:number|integer)|(?:prime|fibonacci)(?: number|$)|die\b|dice\b)`)
	reToken      = lazyregexp.New(`^\x00(\d+)\x00`)
)

// read takes a sentence apart.
func read(sentence string) *reading {
	r := &reading{}
	s := strings.TrimSpace(strings.ReplaceAll(sentence, "\x00", " "))
	s = strings.NewReplacer("’s ", "'s ", "\u2212", "-", "\u00a0", " ").Replace(s)
	s = reQuoted.ReplaceFunc(s, func(m []string) string {
		for _, g := range m[1:] {
			if g != "" {
				r.texts = append(r.texts, g)
				return " "
			}
		}
		r.texts = append(r.texts, "")
		return " "
	})
	s = reURL.ReplaceFunc(s, func(m []string) string { r.urls = append(r.urls, m[0]); return " " })
	s = reDate.ReplaceFunc(s, func(m []string) string { r.dates = append(r.dates, m[0]); return " " })
	s = reNodeJS.ReplaceAllString(s, "nodejs")
	s = reFile.ReplaceFunc(s, func(m []string) string { r.files = append(r.files, strings.TrimPrefix(m[0], "./")); return " " })
	s = r.language(s)
	s = reJSON.ReplaceFunc(s, func([]string) string { r.asJSON = true; return " " })
	s = r.colon(s)
	s = rePossessive.ReplaceAllString(s, "$1")
	s = rePower.ReplaceAllString(s, "$1 power $2")
	s = reLetterN.ReplaceAllString(s, "")
	if reRomanWord.MatchString(s) {
		s = r.takeRomans(s)
	}
	for _, p := range phraseTable {
		s = p.re.ReplaceAllString(s, p.to)
	}
	r.tokens(s)
	r.words = dropAdjectives(r.words, r.lang != "")
	r.asks = reAsked.MatchString(sentence)
	r.single = reSingle.MatchString(sentence)
	return r
}

// language takes the languages out of a sentence.
func (r *reading) language(s string) string {
	return reLang.ReplaceFunc(s, func(m []string) string {
		l := api.Python
		if m[2] != "" {
			l = api.JavaScript
		}
		if r.lang != "" && r.lang != l {
			r.problem = "the sentence names two languages"
		}
		r.lang = l
		return " "
	})
}

// colon takes what stands behind a colon as a text, when it is no list of
// numbers and nothing else was quoted.
func (r *reading) colon(s string) string {
	i := strings.Index(s, ": ")
	if i < 0 || len(r.texts) > 0 {
		return s
	}
	tail := strings.TrimSpace(s[i+2:])
	if tail == "" || strings.Trim(tail, "0123456789-.,;[]() and&") == "" {
		return s
	}
	r.unquoted = strings.TrimSuffix(tail, ".")
	r.texts = append(r.texts, r.unquoted)
	return s[:i]
}

// takeRomans takes Roman numerals out of a sentence that speaks of them.
func (r *reading) takeRomans(s string) string {
	return reRoman.ReplaceFunc(s, func(m []string) string { r.romans = append(r.romans, m[0]); return " " })
}

// tokens reads words and numbers.
func (r *reading) tokens(s string) {
	bracketed := strings.ContainsAny(s, "[(")
	type found struct{ number }
	var nums []found
	s = reNumber.ReplaceFunc(s, func(m []string) string {
		for _, n := range splitNumber(m[2], m[4] != "", bracketed) {
			nums = append(nums, found{number{text: scale(n, m[4]), ordinal: m[3] != ""}})
		}
		out := m[1]
		for i := len(splitNumber(m[2], m[4] != "", bracketed)); i > 0; i-- {
			out += " \x00" + strconv.Itoa(len(nums)-i) + "\x00 "
			if i > 1 {
				out += ","
			}
		}
		return out
	})
	s = strings.ToLower(s)
	run, pos := 0, 0
	last := ""
	pending := -1 // a number that waits for the word after it
	for s != "" {
		num := reToken.FindStringSubmatchIndex(s)
		word := reWord.FindStringIndex(s)
		switch {
		case num != nil:
			k := atoi(s[num[2]:num[3]])
			n := &nums[k].number
			n.run, n.before, n.at = run, last, len(r.words)
			pos, pending = num[1], k
			last = "#"
		case word != nil:
			raw := s[:word[1]]
			st := stem(raw)
			pos = word[1]
			if v, ok := numberWords[raw]; ok && r.countWord(s[word[1]:]) {
				nums = append(nums, found{number{text: v, run: run, before: last, at: len(r.words)}})
				pending, last = len(nums)-1, "#"
				break
			}
			if v, ok := ordinalWords[raw]; ok {
				nums = append(nums, found{number{text: v, run: run, before: last, at: len(r.words), ordinal: true}})
				pending, last = len(nums)-1, "#"
				break
			}
			if raw != "and" && raw != "&" {
				run++
			}
			if pending >= 0 && raw != "and" {
				nums[pending].after, nums[pending].plural = st, strings.HasSuffix(raw, "s")
				pending = -1
			}
			r.words = append(r.words, st)
			last = st
		default:
			if strings.ContainsAny(s[:1], ".!?") && pending >= 0 {
				run++
			}
			c, n := utf8.DecodeRuneInString(s)
			// A hyphen joins two words. Every other mark that is no punctuation means something: 1-10, 1..10, $5.
			joins := c == '-' && pending < 0 && last != "" && last != "#" && len(s) > 1 && s[1] >= 'a' && s[1] <= 'z'
			if !unicode.IsSpace(c) && !strings.ContainsRune(",.;:!?()[]{}'\"\x00", c) && !joins || strings.HasPrefix(s, "..") {
				r.words = append(r.words, string(c))
			}
			pos = n
		}
		s = s[pos:]
	}
	for _, n := range nums {
		r.nums = append(r.nums, n.number)
	}
}

// dropAdjectives leaves out what is said of the program that is asked for.
func dropAdjectives(words []string, language bool) []string {
	var out []string
	for i, w := range words {
		j := i
		for j < len(words) && programAdjectives[words[j]] {
			j++
		}
		if j > i && (j < len(words) && programNouns[words[j]] || j == len(words) && language) {
			continue
		}
		out = append(out, w)
	}
	return out
}

// countWord says whether a number word is followed by something that is counted,
// so that "one" in "one of them" stays a word.
func (r *reading) countWord(rest string) bool {
	return !strings.HasPrefix(strings.TrimLeft(rest, " "), "of ")
}

// splitNumber reads "1,000,000" as one number and "[1,000]" or "100,200" where
// groups are no thousands as several.
func splitNumber(s string, scaled, bracketed bool) []string {
	if !strings.ContainsAny(s, ", _") {
		return []string{s}
	}
	whole, frac, _ := strings.Cut(s, ".")
	parts := strings.FieldsFunc(whole, func(c rune) bool { return strings.ContainsRune(", _", c) })
	joined := strings.Join(parts, "")
	if frac != "" {
		joined += "." + frac
	}
	thousands := len(strings.TrimLeft(parts[0], "-")) <= 3 && !strings.HasPrefix(parts[0], "0")
	for _, p := range parts[1:] {
		// "100, 200, 300" is a list; "1,000,000" has groups of zeros mostly.
		thousands = thousands && (strings.Contains(s, "_") || p == "000" || len(parts) == 2)
	}
	if len(parts) == 2 && !bracketed && !scaled && strings.Contains(s, ",") && !strings.Contains(s, ", ") && parts[1] != "000" ||
		!strings.ContainsAny(s, ",_") && slices.ContainsFunc(parts[1:], func(p string) bool { return p[0] == '0' }) {
		return []string{s} // one number or two: no number that a program takes
	}
	if (thousands || scaled) && !bracketed && !strings.Contains(s, ", ") && !strings.Contains(s, " ") {
		return []string{joined}
	}
	if frac != "" {
		parts[len(parts)-1] += "." + frac
	}
	return parts
}

// scale applies "million" and the exponent of "1e6".
func scale(s, word string) string {
	zeros := map[string]int{"thousand": 3, "million": 6, "billion": 9}[strings.ToLower(word)]
	if base, exp, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		s, zeros = base, zeros+atoi(exp)
	}
	whole, frac, _ := strings.Cut(s, ".")
	for zeros > 0 {
		digit := "0"
		if frac != "" {
			digit, frac = frac[:1], frac[1:]
		}
		whole, zeros = whole+digit, zeros-1
	}
	if frac != "" {
		return whole + "." + frac
	}
	if neg, ok := strings.CutPrefix(whole, "-"); ok {
		return "-" + trimZeros(neg)
	}
	return trimZeros(whole)
}

func trimZeros(s string) string {
	if t := strings.TrimLeft(s, "0"); t != "" {
		return t
	}
	return "0"
}
