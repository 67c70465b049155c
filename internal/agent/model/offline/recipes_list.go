package offline

import (
	"strings"

	"hortus.dev/api"
)

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
			task:  "compute the {{.stats}} of the numbers {{.numbers}}",
			needs: []string{"mean|average|avg|median|mode|stdev|variance|minimum|min|smallest|lowest|maximum|max|largest|biggest|highest|greatest|sum|total|range|count"}, also: nouns + "summary statistics basic",
			params: []param{list, stats, js}, derive: needStat},
		{name: "statistics_numpy", only: api.Python, deps: []string{"numpy"}, phrase: "the same with numpy",
			task:  "compute the {{.stats}} of the numbers {{.numbers}} with numpy",
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
				return holds(r, "remove", "delete", "drop", "eliminate", "without", "dedupe", "deduplicate", "unique", "distinct")
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
