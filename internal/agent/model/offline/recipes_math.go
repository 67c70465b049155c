package offline

import "slices"

func mathRecipes() []recipe {
	return []recipe{
		{name: "factorial", phrase: "the factorial of n, also recursively", task: "compute the factorial of {{.n}}{{if .method}} with a {{.method}} function{{end}}",
			needs: []string{"factorial"}, also: "number integer",
			params: []param{{name: "n", def: "10", max: 2000}, {name: "method", kind: choice, words: "recursive=recursive recursively=recursive recursion=recursive iterative=iterative iteratively=iterative loop=iterative"}},
			derive: func(r *reading, p map[string]string) bool {
				return p["method"] != "recursive" || len(p["n"]) <= 3 && p["n"] <= "900" || len(p["n"]) < 3
			}},
		{name: "gcd", phrase: "the greatest common divisor of numbers", task: "compute the greatest common divisor of {{.numbers}}",
			needs: []string{"gcd|gcf|hcf"}, also: "number integer euclid euclidean algorithm two", params: []param{{name: "numbers", kind: numbers, def: "48, 36"}}, derive: whole("numbers")},
		{name: "lcm", phrase: "the least common multiple of numbers", task: "compute the least common multiple of {{.numbers}}",
			needs: []string{"lcm"}, also: "number integer two", params: []param{{name: "numbers", kind: numbers, def: "4, 6"}}, derive: whole("numbers")},
		{name: "prime_factors", phrase: "the prime factors of n", task: "compute the prime factors of {{.n}}",
			needs: []string{"prime", "factor|factorization|factorisation|factorize|factorise|decompose|decomposition"}, also: "number integer into",
			params: []param{{name: "n", def: "360", min: 2, max: 1e14}}},
		{name: "divisors", phrase: "all divisors of n", task: "list the divisors of {{.n}}",
			needs: []string{"divisor|factor"}, also: "number integer list all", params: []param{{name: "n", def: "36", min: 1, max: 1e12}},
			derive: func(r *reading, p map[string]string) bool { return !holds(r, "common", "prime") }},
		{name: "digit_sum", phrase: "the sum of the digits of n", task: "compute the sum of the digits of {{.n}}",
			needs: []string{"digit", "sum|add|total"}, also: "number integer up", params: []param{{name: "n", def: "12345", max: 1e18}}},
		{name: "power", phrase: "a number to a power", task: "compute {{.base}} to the power of {{.exponent}}",
			needs: []string{"power"}, also: "number", params: []param{{name: "base", def: "2", min: -1e9, max: 1e9}, {name: "exponent", def: "10", max: 2000}}},
		{name: "sqrt", phrase: "the square root of a number", task: "compute the square root of {{.x}}",
			needs: []string{"sqrt"}, also: "number", params: []param{{name: "x", kind: decimal, def: "2"}},
			derive: func(r *reading, p map[string]string) bool { return p["x"] == "" || p["x"][0] != '-' }},
		{name: "parity", phrase: "whether a number is even or odd", task: "say whether {{.n}} is even or odd",
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
			derive: func(r *reading, p map[string]string) bool { return len(r.nums) != 2 || holds(r, "upto") }},
		{name: "quadratic", phrase: "the roots of a quadratic equation", task: "solve the quadratic equation with the coefficients {{.a}}, {{.b}} and {{.c}}",
			needs: []string{"quadratic"}, also: "solve equation root coefficient solver",
			params: []param{{name: "a", kind: decimal, def: "1"}, {name: "b", kind: decimal, def: "-3"}, {name: "c", kind: decimal, def: "2"}},
			derive: func(r *reading, p map[string]string) bool { return plainNumber(p["a"]) != "0" }},
		{name: "matrix_multiply", phrase: "a matrix product", task: "multiply two matrices",
			needs: []string{"matrix|matrices", "multiply|multiplication|product"}, also: "two 2x2 2x3"},
		{name: "matrix_transpose", phrase: "the transpose of a matrix", task: "transpose a matrix",
			needs: []string{"matrix|matrices", "transpose|transposition"}, also: ""},
		{name: "leap_year", phrase: "whether a year is a leap year", task: "say whether {{.year}} is a leap year",
			needs: []string{"leap"}, also: "year check", params: []param{{name: "year", def: "2024", min: 1, max: 9999}}},
	}
}

// whole refuses lists with decimals or more digits than JavaScript keeps.
func whole(name string) func(*reading, map[string]string) bool {
	return func(_ *reading, p map[string]string) bool {
		return !slices.ContainsFunc([]byte(p[name]), func(c byte) bool { return c == '.' })
	}
}

// span reads "from a to b", "first n" and "up to n" into a and b.
func span(r *reading, p map[string]string) bool {
	switch len(r.nums) {
	case 0:
		return true
	case 1:
		if !holds(r, "first", "upto", "below", "through", "to") {
			return r.nums[0].after == "number" || r.nums[0].after == "square"
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
