package offline

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
				return len(r.nums) <= 2 && len(r.texts) == 0 && (holds(r, "random", "length", "character", "seed") || len(r.nums) == 0)
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
