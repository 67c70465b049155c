package offline

import (
	"math/big"
	"slices"
	"strings"

	"hortus.dev/api"
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
	if len(r.nums) == 0 && holds(r, "first", "nth") && !holds(r, "n") {
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

func algorithmRecipes() []recipe {
	return []recipe{
		{name: "hanoi", phrase: "the Tower of Hanoi", task: "solve the Tower of Hanoi with {{.n}} disks", needs: []string{"hanoi"}, also: "tower disk disc puzzle solve solver move step recursive recursively", params: []param{{name: "n", def: "3", min: 1, max: 12}}},
		{name: "nqueens", phrase: "the n queens problem", task: "solve the {{.n}} queens problem", needs: []string{"nqueens|queen"}, also: "problem puzzle solve solver board chess solution count number howmany backtracking", params: []param{{name: "n", def: "8", min: 1, max: 9}}},
		{name: "password", phrase: "a random password", task: "generate a random password of {{.length}} characters{{with .seed}}, the same each time, with the seed {{.}}{{end}}", needs: []string{"password"}, also: "random length character letter seed fixed long",
			params: []param{{name: "length", def: "16", min: 4, max: 128, optional: true}, {name: "seed", max: 1e6, optional: true}},
			derive: func(r *reading, p map[string]string) bool {
				p["length"], p["seed"] = "16", ""
				for _, n := range r.nums {
					if n.before == "seed" {
						p["seed"] = n.text
					} else {
						p["length"] = n.text
					}
				}
				if slices.ContainsFunc(r.nums, func(n number) bool { return n.after == "random" || n.after == "password" && n.plural }) {
					return false // several passwords
				}
				return len(r.nums) <= 2 && (len(r.nums) < 2 || p["seed"] != "") && len(r.texts) == 0 && (holds(r, "random", "length", "character", "seed") || len(r.nums) == 0)
			}},
	}
}

func fileRecipes() []recipe {
	return []recipe{
		{name: "csv_squares", phrase: "a CSV file of squares", task: "write a CSV file {{.file}} with the squares of the numbers from 1 to {{.n}}", output: "file",
			needs: []string{"square"}, also: "csv file number first upto save called named table from to 1 column",
			params: []param{{name: "file", kind: file, def: "squares.csv"}, {name: "a", def: "1", min: 1, max: 1, optional: true}, {name: "n", def: "10", min: 1, max: 1e5, optional: true}},
			derive: func(r *reading, p map[string]string) bool {
				switch len(r.nums) {
				case 1:
					p["a"], p["n"] = "1", r.nums[0].text
				case 2:
					if p["a"] != "1" {
						return false
					}
				}
				return (holds(r, "csv", "file", "save") || len(r.files) == 1) && (len(r.files) == 0 && holds(r, "csv") || len(r.files) == 1 && ends(p["file"], ".csv")) && !holds(r, "read")
			}},
		{name: "csv_sum", phrase: "a CSV table, written and read back", task: "write a small CSV file {{.file}}, read it back and sum a column", output: "file",
			needs: []string{"csv", "sum|total|add"}, also: "file sample column read back small up save", params: []param{{name: "file", kind: file, def: "sample.csv"}},
			derive: func(r *reading, p map[string]string) bool {
				return (holds(r, "sample") || holds(r, "back")) && ends(p["file"], ".csv")
			}},
		{name: "write_text", phrase: "a text file with a given text", task: "write the text {{short .text}} to the file {{.file}}", output: "file",
			needs: []string{"write|save|store|put|create"}, also: "text string file line called named contain content message into", params: []param{{name: "text", kind: text}, {name: "file", kind: file, def: "output.txt"}},
			derive: func(r *reading, p map[string]string) bool {
				return (len(r.files) == 1 || holds(r, "file")) && !ends(p["file"], ".csv") && (ends(p["file"], ".txt") || ends(p["file"], ".md") || ends(p["file"], ".log"))
			}},
	}
}

func ends(s, suffix string) bool { return len(s) > len(suffix) && s[len(s)-len(suffix):] == suffix }

func classRecipes() []recipe {
	const nouns = "class data structure implementation simple object oriented demonstration usage method operation push pop enqueue dequeue"
	return []recipe{
		{name: "stack", phrase: "a stack class", task: "implement a stack class and demonstrate it", needs: []string{"stack"}, also: nouns},
		{name: "queue", phrase: "a queue class", task: "implement a queue class and demonstrate it", needs: []string{"queue"}, also: nouns},
		{name: "linked_list", phrase: "a linked list", task: "implement a linked list and demonstrate it", needs: []string{"linkedlist"}, also: nouns + " singly insert append"},
		{name: "bank_account", phrase: "a bank account class", task: "implement a bank account class with deposit and withdrawal and demonstrate it", needs: []string{"bank", "account"}, also: nouns + " deposit withdraw withdrawal balance"},
	}
}

func conversionRecipes() []recipe {
	return []recipe{
		{name: "to_roman", phrase: "Roman numerals", task: "convert {{.n}} to a Roman numeral", needs: []string{"roman"}, also: "numeral number convert integer arabic decimal",
			params: []param{{name: "n", def: "1994", min: 1, max: 3999}}},
		{name: "from_roman", phrase: "Roman numerals", task: "convert the Roman numeral {{.numeral}} to a number", needs: []string{"roman"}, also: "numeral number convert integer arabic decimal",
			params: []param{{name: "numeral", kind: roman}}},
		{name: "to_base", phrase: "binary, octal and hexadecimal", task: "convert {{.n}} to {{.bases}}", needs: []string{"binary|hexadecimal|hex|octal"}, also: "number convert decimal integer representation base notation or",
			params: []param{{name: "n", def: "42", max: 1e15}, {name: "bases", kind: set, words: "binary=binary octal=octal hexadecimal=hexadecimal hex=hexadecimal"}},
			derive: func(r *reading, p map[string]string) bool { return !r.asks && !towards(r, "decimal") && !fromBase(r) }},
		{name: "from_base", phrase: "binary, octal and hexadecimal", task: "convert the {{.base}} number {{.digits}} to decimal", needs: []string{"binary|octal"}, also: "number convert decimal integer base",
			params: []param{{name: "digits", max: 1e15}, {name: "base", kind: choice, words: "binary=binary octal=octal"}},
			derive: func(r *reading, p map[string]string) bool {
				top := byte('1')
				if p["base"] == "octal" {
					top = '7'
				}
				return (towards(r, "decimal") || fromBase(r)) && !slices.ContainsFunc([]byte(p["digits"]), func(c byte) bool { return c > top || c < '0' })
			}},
		{name: "temperature", phrase: "Celsius, Fahrenheit and Kelvin", task: "convert {{num .value}} degrees {{.from}} to {{.to}}", needs: []string{"celsius|fahrenheit|kelvin"}, also: "celsius fahrenheit kelvin degree convert temperature conversion",
			params: []param{{name: "value", kind: decimal, def: "25"}, {name: "from", kind: choice}, {name: "to", kind: choice}},
			derive: direction("celsius", "fahrenheit", "kelvin")},
		{name: "units", phrase: "miles, kilometres, kilograms, pounds, metres, feet, inches, centimetres", task: "convert {{num .value}} {{.from}} to {{.to}}",
			needs: []string{"mile|kilometer|kilometre|km|kilogram|kg|pound|lb|meter|metre|foot|feet|inch|centimeter|centimetre|cm"}, also: "mile kilometer kilometre km kilogram kg pound lb meter metre foot feet inch inches centimeter centimetre cm convert unit conversion distance weight length",
			params: []param{{name: "value", kind: decimal, def: "10"}, {name: "from", kind: choice}, {name: "to", kind: choice}},
			derive: units},
		{name: "days_between", phrase: "the days between two dates", task: "count the days between {{.first}} and {{.second}}", needs: []string{"day|difference", "between|from|since|date"}, also: "date number howmany count difference two elapsed are",
			params: []param{{name: "first", kind: date, def: "2024-01-01"}, {name: "second", kind: date, def: "2024-12-25"}},
			derive: func(r *reading, p map[string]string) bool {
				return holds(r, "day", "date") && (len(r.dates) == 2 || holds(r, "date"))
			}},
		{name: "weekday", phrase: "the weekday of a date", task: "find the weekday of {{.day}}", needs: []string{"weekday"}, also: "date was falls fall", params: []param{{name: "day", kind: date, def: "2024-02-29"}}},
	}
}

// towards reports whether "to" or "into" stands before a word.
func towards(r *reading, word string) bool {
	i := slices.Index(r.words, stem(word))
	return i > 0 && (r.words[i-1] == "to" || r.words[i-1] == "into")
}

// fromBase reports whether the number of the sentence is itself binary or octal.
func fromBase(r *reading) bool {
	for _, n := range r.nums {
		if n.before == "binary" || n.before == "octal" || n.before == "number" && holds(r, "decimal") && !towards(r, "binary") && !towards(r, "octal") && !towards(r, "hexadecimal") && !towards(r, "hex") {
			return true
		}
	}
	for i, w := range r.words {
		if w == "from" && i+1 < len(r.words) && (r.words[i+1] == "binary" || r.words[i+1] == "octal") {
			return true
		}
	}
	return false
}

// direction reads "a to b", or "to b from a", over a few unit names.
func direction(names ...string) func(*reading, map[string]string) bool {
	return func(r *reading, p map[string]string) bool {
		var order []string
		for _, w := range r.words {
			for _, n := range names {
				if w == stem(n) && !slices.Contains(order, n) {
					order = append(order, n)
				}
			}
		}
		if len(order) != 2 {
			return false
		}
		p["from"], p["to"] = order[0], order[1]
		if towards(r, order[0]) {
			p["from"], p["to"] = order[1], order[0]
		}
		// A number is of the unit behind it.
		if len(r.nums) == 1 {
			at := r.nums[0].at
			for at < len(r.words) && (r.words[at] == "degre" || r.words[at] == stem("degree") || r.words[at] == "from") {
				at++
			}
			return at < len(r.words) && r.words[at] == stem(p["from"])
		}
		return true
	}
}

// units is direction with its synonyms, for pairs that belong together.
func units(r *reading, p map[string]string) bool {
	same := map[string]string{
		"kilometer": "kilometers", "kilometr": "kilometers", "km": "kilometers", "mile": "miles", "kilogram": "kilograms", "kg": "kilograms",
		"pound": "pounds", "lb": "pounds", "meter": "meters", "metre": "meters", "foot": "feet", "feet": "feet", "inch": "inches",
		"centimeter": "centimeters", "centimetr": "centimeters", "cm": "centimeters",
	}
	c := *r
	c.words = nil
	for _, w := range r.words {
		if name, ok := same[w]; ok {
			w = stem(name)
		}
		c.words = append(c.words, w)
	}
	if !direction("kilometers", "miles", "kilograms", "pounds", "meters", "feet", "inches", "centimeters")(&c, p) {
		return false
	}
	weight := func(s string) bool { return s == "kilograms" || s == "pounds" }
	return weight(p["from"]) == weight(p["to"])
}

const statWords = "mean=mean average=mean avg=mean median=median mode=mode stdev=stdev variance=variance minimum=min min=min smallest=min lowest=min maximum=max max=max largest=max biggest=max highest=max greatest=max sum=sum total=sum range=range count=count"

func listRecipes() []recipe {
	list := param{name: "numbers", kind: numbers, def: defaultNumbers}
	js := param{name: "json", kind: flag}
	const nouns = "list array number integer float sample data set numeric sequence "
	stats := param{name: "stats", kind: set, words: statWords}
	needStat := func(r *reading, p map[string]string) bool {
		// "sum of the squares" and "count the words" are other tasks, and one
		// number alone is no list.
		return p["stats"] != "" && !(len(r.nums) > 0 && p["numbers"] == defaultNumbers) && (len(r.nums) > 0 || holds(r, "number", "list", "array", "data", "integer", "sample", "sequence"))
	}
	return []recipe{
		{name: "statistics", phrase: "mean, median, mode, standard deviation, minimum, maximum, sum of numbers",
			task:  "compute the {{series .stats}} of the numbers {{.numbers}}",
			needs: []string{"mean|average|avg|median|mode|stdev|variance|minimum|min|smallest|lowest|maximum|max|largest|biggest|highest|greatest|sum|total|range|count"}, also: nouns + "summary statistics basic",
			params: []param{list, stats, js}, derive: needStat},
		{name: "statistics_numpy", only: api.Python, deps: []string{"numpy"}, phrase: "the same with numpy",
			task:  "compute the {{series .stats}} of the numbers {{.numbers}} with numpy",
			needs: []string{"numpy", "mean|average|avg|median|stdev|variance|minimum|min|smallest|maximum|max|largest|sum|total"}, also: nouns + "library module package",
			params: []param{list, stats}, derive: func(r *reading, p map[string]string) bool {
				return needStat(r, p) && !strings.Contains(p["stats"], "mode") && !strings.Contains(p["stats"], "count") && !strings.Contains(p["stats"], "range")
			}},
		{name: "sort_numbers", phrase: "sorting numbers, also with bubble, insertion, selection, quick or merge sort",
			task:  "sort the numbers {{.numbers}} {{if eq .order \"desc\"}}in descending order{{else}}in ascending order{{end}}{{if .algorithm}} with {{.algorithm}} sort{{end}}",
			needs: []string{"sort|bubblesort|quicksort|mergesort|order|arrange"}, also: nouns + "order algorithm own " + "least",
			params: []param{list, {name: "order", kind: choice, def: "asc", words: "descending=desc decreasing=desc ascending=asc increasing=asc"},
				{name: "algorithm", kind: choice, words: "bubble=bubble bubblesort=bubble insertion=insertion selection=selection quick=quick quicksort=quick merge=merge mergesort=merge"}, js},
			derive: func(r *reading, p map[string]string) bool {
				return (holds(r, "number", "integer", "list", "array") || len(r.nums) > 1 || p["algorithm"] != "") && (holds(r, "sort", "bubblesort", "quicksort", "mergesort", "arrange") || len(r.nums) > 1)
			}},
		{name: "unique", phrase: "a list without its duplicates", task: "remove the duplicates from the numbers {{.numbers}}",
			needs: []string{"duplicate|dedupe|deduplicate|unique|distinct"}, also: nouns + "remove delete drop keep order preserve element item only eliminate without",
			params: []param{{name: "numbers", kind: numbers, def: "1, 2, 2, 3, 4, 4, 5, 1"}, js},
			derive: func(r *reading, p map[string]string) bool {
				drop := holds(r, "remove", "delete", "drop", "eliminate", "without", "dedupe", "deduplicate")
				return drop != holds(r, "unique", "distinct")
			}},
		{name: "binary_search", phrase: "binary search in a sorted list", task: "find {{.target}} in the sorted numbers {{.numbers}} by binary search",
			needs: []string{"binary", "search"}, also: nouns + "sort algorithm element index position target", params: []param{{name: "numbers", kind: numbers, def: "1, 3, 5, 7, 9, 11, 13"}, {name: "target", def: "7", min: -1e15, max: 1e15}}},
		{name: "reverse_list", phrase: "a list in reverse order", task: "reverse the list of numbers {{.numbers}}",
			needs: []string{"reverse", "list|array|number"}, also: nouns + "order", params: []param{{name: "numbers", kind: numbers, def: "1, 2, 3, 4, 5"}}},
		{name: "random_numbers", phrase: "random numbers", task: "print {{.n}} random numbers from {{.low}} to {{.high}}{{with .seed}} with the seed {{.}}{{end}}",
			needs: []string{"random|dice|die"}, also: "number integer between seed roll dice die pseudo fixed seeded time",
			params: []param{{name: "n", def: "5", min: 1, max: 10000, optional: true}, {name: "low", def: "1", min: -1e6, max: 1e6, optional: true}, {name: "high", def: "100", min: -1e6, max: 1e6, optional: true}, {name: "seed", max: 1e6, optional: true}},
			derive: randomNumbers},
	}
}

// randomNumbers sorts out what each number is: the count, the bounds, the seed.
func randomNumbers(r *reading, p map[string]string) bool {
	p["n"], p["low"], p["high"], p["seed"] = "5", "1", "100", ""
	if r.single {
		p["n"] = "1"
	}
	var bounds []string
	for _, n := range r.nums {
		switch {
		case n.before == "seed" || n.before == "of" && holds(r, "seed") && n.after == "":
			p["seed"] = n.text
		case n.before == "between" || n.before == "from" || n.before == "to" || n.before == "and" || n.before == "#":
			bounds = append(bounds, n.text)
		case n.after == "random" || n.after == "number" || n.after == "integer" || n.after == "dice" || n.after == "time" && holds(r, "dice", "die"):
			p["n"] = n.text
		default:
			return false
		}
	}
	switch len(bounds) {
	case 0:
	case 2:
		p["low"], p["high"] = bounds[0], bounds[1]
	default:
		return false
	}
	if holds(r, "dice", "die", "roll") {
		if len(bounds) > 0 {
			return false
		}
		p["low"], p["high"] = "1", "6"
	}
	return atoi(p["low"]) <= atoi(p["high"])
}
