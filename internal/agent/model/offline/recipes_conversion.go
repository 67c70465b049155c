package offline

import "slices"

func conversionRecipes() []recipe {
	return []recipe{
		{name: "to_roman", phrase: "Roman numerals", task: "convert {{.n}} to a Roman numeral", needs: []string{"roman"}, also: "numeral number convert integer arabic decimal",
			params: []param{{name: "n", def: "1994", min: 1, max: 3999}}},
		{name: "from_roman", phrase: "Roman numerals", task: "convert the Roman numeral {{.numeral}} to a number", needs: []string{"roman"}, also: "numeral number convert integer arabic decimal",
			params: []param{{name: "numeral", kind: roman}}},
		{name: "to_base", phrase: "binary, octal and hexadecimal", task: "convert {{.n}} to {{.bases}}", needs: []string{"binary|hexadecimal|hex|octal"}, also: "number convert decimal integer representation base notation or",
			params: []param{{name: "n", def: "42", max: 1e15}, {name: "bases", kind: set, words: "binary=binary octal=octal hexadecimal=hexadecimal hex=hexadecimal"}},
			derive: func(r *reading, p map[string]string) bool { return !towards(r, "decimal") && !fromBase(r) }},
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
