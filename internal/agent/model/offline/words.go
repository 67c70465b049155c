package offline

import (
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// atoi reads digits that a pattern has matched; more than fit give the largest.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1 << 30
	}
	return n
}

// phraseTable makes one word of what several words say.
var phraseTable = func() []phrase {
	var t []phrase
	for _, p := range [][2]string{
		{`greatest common (divisor|denominator|factor)s?|highest common (factor|divisor)s?`, "gcd"},
		{`(least|lowest|smallest) common multiples?`, "lcm"},
		{`standard[- ]deviations?|std ?dev|std\.? dev`, "stdev"},
		{`up[- ]to( and including)?|no (more|larger|greater) than|not (more|larger|greater) than`, "upto"},
		{`less than|smaller than|lower than`, "below"},
		{`n[- ]queens?|(\d+|eight|four|six|five)[- ]queens?`, "nqueens $1"},
		{`fizz[- ]buzz`, "fizzbuzz"},
		{`base[- ]?64`, "base64"},
		{`sha[- ]?256`, "sha256sum"}, {`sha[- ]?512`, "sha512sum"}, {`sha[- ]?1`, "sha1sum"}, {`md[- ]?5`, "md5sum"},
		{`rot[- ]?13`, "rotthirteen"},
		{`upper[- ]?case`, "uppercase"}, {`lower[- ]?case`, "lowercase"}, {`title[- ]?case`, "titlecase"},
		{`day of the week|week[- ]?day`, "weekday"},
		{`n[- ]?th\b`, "nth"},
		{`built[- ]in`, "builtin"},
		{`standard library|stdlib`, "stdlib"},
		{`hello,? ?world`, "helloworld"},
		{`square roots?`, "sqrt"},
		{`to the power( of)?|raised to`, " power "},
		{`one hundred`, "100"},
		{`(?:letter|character|word|digit)s? (?:a|i)\b`, "lettername"}, // not an article
		{`work out`, "compute"},
		{`e[- ]mails?`, "email"},
		{`prime[- ]fact`, "prime fact"},
		{`how many|number of`, "howmany"},
		{`as well as|together with`, "and"},
		{`so that|such that`, "that"},
		{`lines? of text`, "text"},
		{`command[- ]line`, "terminal"},
		{`linked[- ]list`, "linkedlist"},
		{`count(s|ing)? down|countdown`, "countdown"},
		{`times tables?`, "multiplication table"},
		{`\bwhat's\b`, "what is"},
	} {
		t = append(t, phrase{lazyregexp.New(`(?i)\b(?:` + p[0] + `)`), p[1]})
	}
	return t
}()

type phrase struct {
	re *lazyregexp.Regexp
	to string
}

// numberWords are numbers that people spell.
var numberWords = map[string]string{
	"three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
	"nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20",
	"thirty": "30", "fifty": "50", "hundred": "100", "zero": "0",
}

var ordinalWords = map[string]string{
	"third": "3", "fourth": "4", "fifth": "5", "sixth": "6", "seventh": "7", "eighth": "8",
	"ninth": "9", "tenth": "10", "twentieth": "20", "hundredth": "100",
}

// generic are words that say nothing about which task is meant.
var generic = vocabulary(`a an them they the this that these those which what it its is are be being been can could do does
 will would should shall i we you me us my our your im want need like please kindly help let lets now just some
 of for in on to and with as at into then so if whether given following from by using use used uses via
 also both each all any there here out
 write create make build develop implement code program script function method routine app application tool utility
 snippet example demo
 builtin stdlib
 compute calculate evaluate find print output display show return returning give produce generate determine get tell run
 execute demonstrate say report
 result results value values answer answers stdout terminal console screen output
 how me hey hi thanks thank`)

// programNouns are what a request calls a program, and programAdjectives what it may say of one. Of anything else
// ("the short words", "working days") such an adjective changes what is asked.
var (
	programNouns      = vocabulary("code program script function routine method app application tool utility snippet example demo class implementation way")
	programAdjectives = vocabulary("small simple short quick tiny little basic nice complete working easy clean pure plain good idiomatic modern")
	// deictic words refer to something that the request must hold.
	deictic = vocabulary("my our your these those this them it following")
)

func vocabulary(s string) map[string]bool {
	v := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		v[stem(w)] = true
	}
	return v
}

// stem brings the forms of a word together. It is crude on purpose: vocabulary
// and sentence go through the same.
func stem(w string) string {
	w = strings.ToLower(w)
	switch {
	case len(w) > 5 && strings.HasSuffix(w, "ies"):
		w = w[:len(w)-3] + "y"
	case len(w) > 6 && strings.HasSuffix(w, "ing") && strings.ContainsAny(w[:len(w)-3], "aeiouy"):
		w = double(w[:len(w)-3])
	case len(w) > 5 && strings.HasSuffix(w, "ed") && strings.ContainsAny(w[:len(w)-2], "aeiouy"):
		w = double(w[:len(w)-2])
	case len(w) > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "xes") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes")):
		w = w[:len(w)-2]
	case len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}
	if len(w) > 4 && strings.HasSuffix(w, "e") {
		w = w[:len(w)-1]
	}
	return w
}

// double takes back the doubled consonant of "getting".
func double(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("aeiousl", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}
