package offline

func sequenceRecipes() []recipe {
	n := func(def string, max int64) param { return param{name: "n", def: def, max: max} }
	low := func(def string) param { return param{name: "low", def: def, max: 1e6, optional: true} }
	upper := func(def string, max int64) param { return param{name: "n", def: def, max: max, optional: true} }
	mode := param{name: "mode", kind: choice}
	js := param{name: "json", kind: flag}
	return []recipe{
		{name: "fibonacci", phrase: "Fibonacci numbers: the first n, up to n, or the n-th", task: "{{if eq .mode \"nth\"}}compute the Fibonacci number with the index {{.n}}{{else if eq .mode \"upto\"}}print the Fibonacci numbers up to {{.n}}{{else}}print the first {{.n}} Fibonacci numbers{{end}}",
			needs: []string{"fibonacci|fib"}, also: amountWords + "iterative iteratively loop", params: []param{n("10", 10000), mode, js},
			derive: func(r *reading, p map[string]string) bool {
				if len(r.nums) == 0 && holds(r, "check", "is", "if", "whether") || len(r.nums) == 1 && (r.nums[0].before == "is" || r.nums[0].before == "if" || r.nums[0].before == "whether") {
					return false // no program reports whether a number is one of them
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
		{name: "fibonacci_recursive", phrase: "the n-th Fibonacci number, recursively", task: "compute the Fibonacci number with the index {{.n}} with a recursive function",
			needs: []string{"fibonacci|fib", "recursive|recursively|recursion"}, also: "number nth term element sequence", params: []param{n("20", 900)},
			derive: func(r *reading, p map[string]string) bool { return len(r.nums) < 2 }},
		{name: "primes", phrase: "prime numbers: the first n, up to n, or whether n is prime", task: "{{if eq .mode \"one\"}}say whether {{.n}} is prime{{else if eq .mode \"upto\"}}print the prime numbers from {{.low}} to {{.n}}{{else if eq .mode \"nth\"}}compute the prime number with the index {{.n}}{{else}}print the first {{.n}} prime numbers{{end}}",
			needs: []string{"prime|primality"}, also: amountWords + "sieve eratosthenes check integer test list between", params: []param{low("2"), upper("10", 1e6), mode, js}, derive: func(r *reading, p map[string]string) bool {
				if fromTo(r, p, "2") {
					return true
				}
				if !amount(r, p) {
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
				case 2:
					return p["a"] == "1"
				}
				return true
			}},
		{name: "collatz", phrase: "the Collatz sequence of n", task: "print the Collatz sequence that starts at {{.n}}",
			needs: []string{"collatz"}, also: "sequence conjecture start step number length", params: []param{{name: "n", def: "27", min: 1, max: 1e12}}},
		{name: "pascal", phrase: "Pascal's triangle", task: "print {{.n}} rows of Pascal's triangle",
			needs: []string{"pascal"}, also: "triangle row first", params: []param{{name: "n", def: "5", min: 1, max: 30}}},
		{name: "armstrong", phrase: "Armstrong numbers", task: "{{if eq .mode \"one\"}}say whether {{.n}} is an Armstrong number{{else}}print the Armstrong numbers from {{.low}} to {{.n}}{{end}}",
			needs: []string{"armstrong|narcissistic"}, also: amountWords + "check between through list", params: []param{low("0"), upper("1000", 1e6), mode}, derive: checkOrUpto},
		{name: "perfect", phrase: "perfect numbers", task: "{{if eq .mode \"one\"}}say whether {{.n}} is a perfect number{{else}}print the perfect numbers from {{.low}} to {{.n}}{{end}}",
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
