package offline

import (
	"slices"
	"strings"
)

func textRecipes() []recipe {
	phrase := param{name: "text", kind: text, def: defaultText}
	js := param{name: "json", kind: flag}
	const nouns = "string text sentence phrase word "
	return []recipe{
		{name: "hello", phrase: "hello world", task: "print Hello, World!", needs: []string{"helloworld"}, also: "message classic"},
		{name: "palindrome", decides: true, phrase: "whether a text is a palindrome", task: "say for each text whether it is a palindrome: {{short .texts}}",
			needs: []string{"palindrome|palindromic"}, also: nouns + "check test ignore case number", params: []param{{name: "texts", kind: texts, def: "racecar\nhello\nA man, a plan, a canal: Panama"}},
			derive: func(r *reading, p map[string]string) bool {
				if len(r.texts) > 0 {
					p["texts"] = strings.Join(r.texts, "\n")
				}
				return !strings.Contains(r.unquoted, ",") // one text, or several
			}},
		{name: "reverse_string", phrase: "a text reversed", task: "reverse the text {{short .text}}",
			needs: []string{"reverse|backward|backwards"}, also: nouns + "character letter", params: []param{phrase},
			derive: func(r *reading, p map[string]string) bool {
				return !holds(r, "word", "letter", "sentence", "phrase") && !strings.Contains(r.unquoted, ",") && (len(r.texts) > 0 || holds(r, "string", "text"))
			}},
		{name: "count_text", phrase: "words, characters, lines or vowels of a text", task: "count the {{.what}} of the text {{short .text}}",
			needs: []string{"count|howmany|number|length|counter", "word|character|letter|line|vowel|consonant|char|length"}, also: "string text sentence phrase",
			params: []param{phrase, {name: "what", kind: set, def: "characters", words: "word=words character=characters char=characters length=characters letter=letters line=lines vowel=vowels consonant=consonants"}},
			derive: func(r *reading, p map[string]string) bool {
				if holds(r, "length") {
					p["what"] = "characters"
					return !strings.ContainsAny(p["text"], " \n") || !holds(r, "word")
				}
				return !holds(r, "unique", "each")
			}},
		{name: "anagram", decides: true, phrase: "whether two texts are anagrams", task: "say whether {{short .first}} and {{short .second}} are anagrams",
			needs: []string{"anagram"}, also: nouns + "check two other each", params: []param{{name: "first", kind: text, def: "listen"}, {name: "second", kind: text, def: "silent"}},
			derive: func(r *reading, p map[string]string) bool { return len(r.texts) != 1 }},
		{name: "caesar", phrase: "Caesar cipher and ROT13", task: "{{if eq .mode \"decrypt\"}}decrypt{{else}}encrypt{{end}} the text {{short .text}} with a Caesar cipher of shift {{.shift}}",
			needs: []string{"caesar|rotthirteen"}, also: nouns + "cipher shift cypher message", params: []param{phrase, {name: "shift", def: "3", min: -1000, max: 1000},
				{name: "mode", kind: choice, def: "encrypt", words: "decrypt=decrypt decode=decrypt decipher=decrypt encrypt=encrypt encode=encrypt"}},
			derive: func(r *reading, p map[string]string) bool {
				if holds(r, "rotthirteen") {
					p["shift"] = "13"
					return len(r.nums) == 0
				}
				return true
			}},
		{name: "word_frequency", phrase: "how often each word or letter occurs", task: "count how often each {{.unit}} occurs in the text {{short .text}}",
			needs: []string{"frequency|frequent|occurrence|occur|often|appear|appearance|each", "word|letter|character"}, also: "string text sentence phrase count howmany number time most common in",
			params: []param{{name: "text", kind: text, def: "the cat and the dog and the bird"}, {name: "unit", kind: choice, def: "word", words: "word=word letter=letter character=letter"}, js},
			derive: func(r *reading, p map[string]string) bool {
				return !holds(r, "most", "common") && holds(r, "frequency", "frequent", "occurrence", "occur", "often", "appear", "count", "howmany")
			}},
		{name: "case", phrase: "upper, lower or title case of a text", task: "convert the text {{short .text}} to {{.mode}} case",
			needs: []string{"uppercase|lowercase|titlecase|capitalize|capitalise"}, also: nouns + "convert letter change turn",
			params: []param{phrase, {name: "mode", kind: choice, words: "uppercase=upper lowercase=lower titlecase=title capitalize=title capitalise=title"}},
			derive: func(r *reading, p map[string]string) bool {
				// The first letter of the text, or of each word?
				return !holds(r, "capitalize", "capitalise") || holds(r, "word") || !strings.Contains(p["text"], " ")
			}},
		{name: "sort_words", phrase: "words in alphabetical order", task: "sort the words {{short .words}}{{if eq .order \"desc\"}} in reverse order{{end}}",
			needs: []string{"sort|alphabetically|alphabetical|alphabetize"}, also: "word string name list array order alphabet ascending",
			params: []param{{name: "words", kind: texts, def: "pear\napple\ncherry\nbanana"}, {name: "order", kind: choice, def: "asc", words: "reverse=desc descending=desc"}},
			derive: func(r *reading, p map[string]string) bool {
				// Which comes first is not agreed on for digits and accents, and "sort the string" may mean its letters.
				beyond := func(c rune) bool { return c > '~' || c >= '0' && c <= '9' }
				return (len(r.texts) > 0 || holds(r, "word", "string", "name")) && strings.Contains(p["words"], "\n") && !strings.ContainsFunc(p["words"], beyond)
			}},
		{name: "emails", phrase: "e-mail addresses in a text", task: "extract the e-mail addresses from the text {{short .text}}",
			needs: []string{"email"}, also: nouns + "extract address regex regular expression match all pull parse", params: []param{{name: "text", kind: text, def: "Write to ada@example.com or charles@example.org."}},
			derive: func(r *reading, p map[string]string) bool {
				return holds(r, "extract", "address", "match", "regex", "pull") && !holds(r, "send")
			}},
		{name: "hash", phrase: "the SHA-256 (or MD5, SHA-1, SHA-512) hash of a text", task: "compute the {{.algorithm}} hash of the text {{short .text}}",
			needs: []string{"sha256sum|sha512sum|sha1sum|md5sum|hash"}, also: nouns + "hash digest hex checksum hexadecimal",
			params: []param{{name: "text", kind: text, def: "hello"}, {name: "algorithm", kind: choice, def: "sha256", words: "sha256sum=sha256 sha512sum=sha512 sha1sum=sha1 md5sum=md5"}},
			derive: func(r *reading, p map[string]string) bool {
				return len(r.texts) > 0 || holds(r, "sha256sum", "sha512sum", "sha1sum", "md5sum")
			}},
		{name: "base64", phrase: "base64 of a text, and back", task: "{{.mode}} the text {{short .text}} {{if eq .mode \"decode\"}}from{{else}}as{{end}} base64",
			needs: []string{"base64"}, also: nouns + "convert", params: []param{{name: "text", kind: text, def: "aGVsbG8="}, {name: "mode", kind: choice, def: "encode", words: "encode=encode encoding=encode decode=decode decoding=decode"}},
			derive: func(r *reading, p map[string]string) bool {
				if len(r.texts) == 0 && p["mode"] == "encode" {
					p["text"] = "hello"
				}
				return true
			}},
		{name: "url_parts", phrase: "the parts of a URL", task: "split the URL {{short .url}} into its parts",
			needs: []string{"url", "parse|split|component|part|break|dissect|extract"}, also: "into down query host path port scheme",
			params: []param{{name: "url", kind: link, def: "https://user@example.com:8080/a/b?x=1&y=2#top"}, js}},
		{name: "print_text", phrase: "a given text, also several times", task: "print the text {{short .text}} {{.times}} times",
			needs: []string{"print|say|display|output"}, also: "text string message line time sentence", params: []param{{name: "text", kind: text}, {name: "times", def: "1", min: 1, max: 1000}},
			derive: func(r *reading, p map[string]string) bool {
				return len(r.nums) == 0 || r.nums[0].after == "time"
			}},
	}
}

func mathRecipes() []recipe {
	return []recipe{
		{name: "factorial", phrase: "the factorial of n, also recursively", task: "compute the factorial of {{.n}}{{if .method}} with a {{.method}} function{{end}}",
			needs: []string{"factorial"}, also: "number integer",
			params: []param{{name: "n", def: "10", max: 2000}, {name: "method", kind: choice, words: "recursive=recursive recursively=recursive recursion=recursive iterative=iterative iteratively=iterative loop=iterative"}},
			derive: func(r *reading, p map[string]string) bool {
				return !several(r) && (p["method"] != "recursive" || len(p["n"]) <= 3 && p["n"] <= "900" || len(p["n"]) < 3)
			}},
		{name: "gcd", phrase: "the greatest common divisor of numbers", task: "compute the greatest common divisor of {{.numbers}}",
			needs: []string{"gcd|gcf|hcf"}, also: "number integer euclid euclidean algorithm two", params: []param{{name: "numbers", kind: numbers, def: "48, 36"}}, derive: whole("numbers")},
		{name: "lcm", phrase: "the least common multiple of numbers", task: "compute the least common multiple of {{.numbers}}",
			needs: []string{"lcm"}, also: "number integer two", params: []param{{name: "numbers", kind: numbers, def: "4, 6"}}, derive: whole("numbers")},
		{name: "prime_factors", phrase: "the prime factors of n", task: "compute the prime factors of {{.n}}",
			needs: []string{"prime", "factor|factorization|factorisation|factorize|factorise|decompose|decomposition"}, also: "number integer into",
			params: []param{{name: "n", def: "360", min: 2, max: 1e14}},
			derive: func(r *reading, _ map[string]string) bool { return !several(r) }},
		{name: "divisors", phrase: "all divisors of n", task: "list the divisors of {{.n}}",
			needs: []string{"divisor|factor"}, also: "number integer list all", params: []param{{name: "n", def: "36", min: 1, max: 1e12}},
			derive: func(r *reading, p map[string]string) bool { return !holds(r, "common", "prime") && !several(r) }},
		{name: "digit_sum", phrase: "the sum of the digits of n", task: "compute the sum of the digits of {{.n}}",
			needs: []string{"digit", "sum|add|total"}, also: "number integer up", params: []param{{name: "n", def: "12345", max: 1e18}},
			derive: func(r *reading, _ map[string]string) bool { return !several(r) }},
		{name: "power", phrase: "a number to a power", task: "compute {{.base}} to the power of {{.exponent}}",
			needs: []string{"power"}, also: "number", params: []param{{name: "base", def: "2", min: -1e9, max: 1e9}, {name: "exponent", def: "10", max: 2000}},
			derive: func(r *reading, _ map[string]string) bool { // "10 powers of 2" is something else
				return len(r.nums) == 0 || len(r.nums) == 2 && r.nums[0].after == "power" && r.nums[1].before == "power"
			}},
		{name: "sqrt", phrase: "the square root of a number", task: "compute the square root of {{.x}}",
			needs: []string{"sqrt"}, also: "number", params: []param{{name: "x", kind: decimal, def: "2"}},
			derive: func(r *reading, p map[string]string) bool { return p["x"] == "" || p["x"][0] != '-' }},
		{name: "parity", decides: true, phrase: "whether a number is even or odd", task: "say whether {{.n}} is even or odd",
			needs: []string{"even", "odd"}, also: "number integer check or", params: []param{{name: "n", def: "7", min: -1e15, max: 1e15}}},
		{name: "sum_range", phrase: "the sum of 1 to n, of squares, cubes, even or odd numbers", task: "compute the sum of the {{if .filter}}{{.filter}} {{end}}{{if eq .power \"2\"}}squares of {{else if eq .power \"3\"}}cubes of {{end}}numbers from {{.a}} to {{.b}}{{if .storage}}, collected in a list{{end}}",
			needs: []string{"sum|add|total"}, also: "number integer natural first upto below through between inclusive list up squared cubed collect store n",
			params: []param{{name: "a", def: "1", min: -1e6, max: 1e9, optional: true}, {name: "b", def: "100", max: 1e9, min: -1e6, optional: true},
				{name: "power", kind: choice, def: "1", words: "square=2 squares=2 squared=2 cube=3 cubed=3"},
				{name: "filter", kind: choice, words: "even=even odd=odd"}, {name: "storage", kind: choice}}, derive: sumRange},
		{name: "squares", phrase: "squares or cubes of the numbers from 1 to n", task: "print the {{if eq .power \"3\"}}cubes{{else}}squares{{end}} of the numbers from {{.a}} to {{.b}}",
			needs: []string{"square|cube"}, also: "number integer first upto through between list table natural",
			params: []param{{name: "a", def: "1", min: -1000, max: 10000, optional: true}, {name: "b", def: "10", min: -1000, max: 10000, optional: true},
				{name: "power", kind: choice, def: "2", words: "square=2 cube=3"}, {name: "json", kind: flag}}, derive: span},
		{name: "multiplication_table", phrase: "a multiplication table", task: "print the multiplication table of {{.n}} up to {{.upto}}",
			needs: []string{"multiplication|multiply", "table"}, also: "number upto first", params: []param{{name: "n", def: "7", min: -1e6, max: 1e6}, {name: "upto", def: "10", min: 1, max: 1000, optional: true}},
			derive: func(r *reading, p map[string]string) bool { return (len(r.nums) == 2) == holds(r, "upto", "first") }},
		{name: "quadratic", phrase: "the roots of a quadratic equation", task: "solve the quadratic equation with the coefficients {{.a}}, {{.b}} and {{.c}}",
			needs: []string{"quadratic"}, also: "solve equation root coefficient solver",
			params: []param{{name: "a", kind: decimal, def: "1"}, {name: "b", kind: decimal, def: "-3"}, {name: "c", kind: decimal, def: "2"}},
			derive: func(r *reading, p map[string]string) bool { return plainNumber(p["a"]) != "0" }},
		{name: "matrix_multiply", phrase: "a matrix product", task: "multiply two matrices",
			needs: []string{"matrix|matrices", "multiply|multiplication|product"}, also: "two 2x2 2x3"},
		{name: "matrix_transpose", phrase: "the transpose of a matrix", task: "transpose a matrix",
			needs: []string{"matrix|matrices", "transpose|transposition"}, also: ""},
		{name: "leap_year", decides: true, phrase: "whether a year is a leap year", task: "say whether {{.year}} is a leap year",
			needs: []string{"leap"}, also: "year check", params: []param{{name: "year", def: "2024", min: 1, max: 9999}}},
	}
}

// whole refuses lists with decimals or more digits than JavaScript keeps.
func whole(name string) func(*reading, map[string]string) bool {
	return func(_ *reading, p map[string]string) bool {
		return !slices.ContainsFunc([]byte(p[name]), func(c byte) bool { return c == '.' })
	}
}

// several reports whether a sentence wants a number of things, not the things of a number: "5 factorials".
func several(r *reading) bool { return len(r.nums) > 0 && r.nums[0].plural }

// span reads "from a to b", "first n" and "up to n" into a and b.
func span(r *reading, p map[string]string) bool {
	switch len(r.nums) {
	case 0:
		return true
	case 1:
		if !holds(r, "first", "upto", "below", "through", "to") {
			p["b"] = r.nums[0].text
			return r.nums[0].plural && (r.nums[0].after == "number" || r.nums[0].after == "square")
		}
		p["a"], p["b"] = "1", r.nums[0].text
		if holds(r, "below") {
			return false
		}
		return true
	case 2:
		a, ok1 := r.nums[0].big()
		b, ok2 := r.nums[1].big()
		if !ok1 || !ok2 || a.Cmp(b) > 0 {
			return false
		}
		p["a"], p["b"] = a.String(), b.String()
		if r.nums[0].run == r.nums[1].run {
			return holds(r, "between")
		}
		return holds(r, "to", "through", "upto", "between")
	}
	return false
}

// sumRange is span for sums: the program adds a range, not a list of two.
func sumRange(r *reading, p map[string]string) bool {
	// "add 5 to 10" has two numbers to add, and the square of a sum is not a sum of squares.
	sum := slices.IndexFunc(r.words, func(w string) bool { return w == "sum" || w == "add" || w == "total" })
	if holds(r, "add") && !holds(r, "from", "between", "upto", "up") || slices.ContainsFunc(r.words[:max(sum, 0)], func(w string) bool { return w == stem("square") || w == stem("cube") }) {
		return false
	}
	if len(r.nums) == 1 && !holds(r, "first", "upto", "through") || !span(r, p) {
		return false
	}
	if len(r.nums) == 0 {
		return p["power"] != "1" || p["filter"] != ""
	}
	if p["filter"] != "" && holds(r, "first") {
		return false // the first n odd numbers are not those up to n
	}
	if holds(r, "list") && p["filter"] == "" && holds(r, "square", "cube") {
		p["storage"] = "list"
	}
	return true
}

func sequenceRecipes() []recipe {
	n := func(def string, max int64) param { return param{name: "n", def: def, max: max} }
	low := func(def string) param { return param{name: "low", def: def, max: 1e6, optional: true} }
	upper := func(def string, max int64) param { return param{name: "n", def: def, max: max, optional: true} }
	mode := param{name: "mode", kind: choice}
	js := param{name: "json", kind: flag}
	return []recipe{
		{name: "fibonacci", ordinals: true, phrase: "Fibonacci numbers: the first n, up to n, or the n-th", task: "{{if eq .mode \"nth\"}}compute the Fibonacci number with the index {{.n}}{{else if eq .mode \"upto\"}}print the Fibonacci numbers up to {{.n}}{{else}}print the first {{.n}} Fibonacci numbers{{end}}",
			needs: []string{"fibonacci|fib"}, also: amountWords + "iterative iteratively loop", params: []param{n("10", 10000), mode, js},
			derive: func(r *reading, p map[string]string) bool {
				if len(r.nums) == 0 && holds(r, "check", "is", "if", "whether") || len(r.nums) == 1 && (r.nums[0].before == "is" || r.nums[0].before == "if" || r.nums[0].before == "whether") {
					return false // no program reports whether a number is one of them
				}
				if r.single && len(r.nums) == 0 {
					return false
				}
				if !amount(r, p) {
					return false
				}
				if p["mode"] == "one" {
					p["mode"] = "nth"
					if r.nums[0].after == "fibonacci" || r.nums[0].after == "term" || r.nums[0].after == "number" || r.nums[0].after == "element" {
						p["mode"] = "first"
					}
				}
				return p["json"] == "" || p["mode"] != "nth"
			}},
		{name: "fibonacci_recursive", ordinals: true, phrase: "the n-th Fibonacci number, recursively", task: "compute the Fibonacci number with the index {{.n}} with a recursive function",
			needs: []string{"fibonacci|fib", "recursive|recursively|recursion"}, also: "number nth term element sequence", params: []param{n("20", 900)},
			derive: func(r *reading, p map[string]string) bool { return len(r.nums) < 2 }},
		{name: "primes", decides: true, ordinals: true, phrase: "prime numbers: the first n, up to n, or whether n is prime", task: "{{if eq .mode \"one\"}}say whether {{.n}} is prime{{else if eq .mode \"upto\"}}print the prime numbers from {{.low}} to {{.n}}{{else if eq .mode \"nth\"}}compute the prime number with the index {{.n}}{{else}}print the first {{.n}} prime numbers{{end}}",
			needs: []string{"prime|primality"}, also: amountWords + "sieve eratosthenes check integer test list between", params: []param{low("2"), upper("10", 1e6), mode, js}, derive: func(r *reading, p map[string]string) bool {
				if fromTo(r, p, "2") {
					return true
				}
				if !amount(r, p) {
					return false
				}
				if r.single && len(r.nums) == 0 && p["mode"] != "one" {
					return false
				}
				if p["mode"] == "one" && len(r.nums) == 1 && r.nums[0].after == "prime" && !holds(r, "is") {
					p["mode"] = "first"
				}
				if p["mode"] == "one" && !holds(r, "is", "check", "test", "primality", "if", "whether") {
					return false
				}
				if p["mode"] != "upto" && p["mode"] != "one" && len(p["n"]) > 4 {
					return false
				}
				return p["json"] == "" || p["mode"] == "first" || p["mode"] == "upto"
			}},
		{name: "fizzbuzz", phrase: "FizzBuzz up to n", task: "print FizzBuzz from 1 to {{.n}}",
			needs: []string{"fizzbuzz"}, also: "number first upto game 1", params: []param{{name: "a", def: "1", min: -1e6, max: 1e6, optional: true}, {name: "n", def: "100", min: 1, max: 1e5, optional: true}},
			derive: func(r *reading, p map[string]string) bool {
				switch len(r.nums) {
				case 1:
					p["a"], p["n"] = "1", r.nums[0].text
					return r.nums[0].before != "from"
				case 2:
					return p["a"] == "1"
				}
				return true
			}},
		{name: "collatz", phrase: "the Collatz sequence of n", task: "print the Collatz sequence that starts at {{.n}}",
			needs: []string{"collatz"}, also: "sequence conjecture start step number", params: []param{{name: "n", def: "27", min: 1, max: 1e12}}},
		{name: "pascal", phrase: "Pascal's triangle", task: "print {{.n}} rows of Pascal's triangle",
			needs: []string{"pascal"}, also: "triangle row first", params: []param{{name: "n", def: "5", min: 1, max: 30}},
			derive: func(r *reading, _ map[string]string) bool { return len(r.nums) == 0 || r.nums[0].after == "row" }},
		{name: "armstrong", decides: true, phrase: "Armstrong numbers", task: "{{if eq .mode \"one\"}}say whether {{.n}} is an Armstrong number{{else}}print the Armstrong numbers from {{.low}} to {{.n}}{{end}}",
			needs: []string{"armstrong|narcissistic"}, also: amountWords + "check between through list", params: []param{low("0"), upper("1000", 1e6), mode}, derive: checkOrUpto},
		{name: "perfect", decides: true, phrase: "perfect numbers", task: "{{if eq .mode \"one\"}}say whether {{.n}} is a perfect number{{else}}print the perfect numbers from {{.low}} to {{.n}}{{end}}",
			needs: []string{"perfect"}, also: amountWords + "check between through list", params: []param{low("0"), upper("10000", 1e5), mode}, derive: checkOrUpto},
		{name: "count", phrase: "counting up or down, even or odd numbers", task: "count {{if eq .down \"true\"}}down {{end}}from {{.a}} to {{.b}}{{if .filter}}, {{.filter}} numbers only{{end}}",
			needs: []string{"count|countdown|number|integer"}, also: "upto number through integer loop", params: []param{{name: "a", def: "1", min: -1e6, max: 1e6}, {name: "b", def: "10", min: -1e6, max: 1e6, optional: true}, {name: "down", kind: choice}, {name: "filter", kind: choice, words: "even=even odd=odd"}},
			derive: func(r *reading, p map[string]string) bool {
				if len(r.nums) == 2 && (!holds(r, "to", "upto", "through") || r.nums[0].run == r.nums[1].run) || len(r.nums) == 0 && !holds(r, "countdown") {
					return false
				}
				if holds(r, "countdown") {
					p["down"] = "true"
					if len(r.nums) == 1 {
						p["b"] = "0"
					} else if len(r.nums) == 0 {
						p["a"], p["b"] = "10", "0"
					}
				} else if len(r.nums) == 1 {
					if !holds(r, "to", "upto") {
						return false
					}
					p["a"], p["b"] = "1", r.nums[0].text
				}
				// "count the even numbers" wants how many there are.
				if i := slices.Index(r.words, "count"); i >= 0 && (holds(r, "number", "integer") || p["filter"] != "") {
					return false
				}
				a, b := atoi(p["a"]), atoi(p["b"])
				return (p["down"] == "true") == (a > b)
			}},
	}
}

// fromTo reads "between a and b" and "from a to b" into low and n; with one
// number it gives low its default back and n the number.
func fromTo(r *reading, p map[string]string, def string) bool {
	if len(r.nums) == 1 {
		p["low"], p["n"] = def, r.nums[0].text
	}
	if len(r.nums) != 2 || !holds(r, "to", "between", "through") || holds(r, "first", "nth") {
		return false
	}
	a, ok1 := r.nums[0].big()
	b, ok2 := r.nums[1].big()
	if !ok1 || !ok2 || a.Cmp(b) > 0 {
		return false
	}
	p["mode"] = "upto"
	return true
}

// checkOrUpto is for numbers with a property: "is 153 ...", or all up to n.
func checkOrUpto(r *reading, p map[string]string) bool {
	if fromTo(r, p, "0") {
		return true
	}
	if len(r.nums) == 0 {
		p["mode"] = "upto"
		return !holds(r, "first", "nth")
	}
	if !amount(r, p) {
		return false
	}
	if p["mode"] == "one" {
		return holds(r, "is", "check", "if", "whether")
	}
	return p["mode"] == "upto"
}
