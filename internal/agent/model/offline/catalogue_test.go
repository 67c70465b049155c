package offline

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// sentences that must match: the program, and what it prints in both languages.
// An empty output means that only the two languages' agreement is checked, "*"
// that nothing but success is.
var matching = []struct{ sentence, program, output string }{
	{"Write a Python script that computes the mean and median of a list of numbers", "statistics", "Numbers: 4, 8, 15, 16, 23, 42, 7, 3, 19, 11\nmean: 14.8\nmedian: 13\n"},
	{"Compute the mean of 3, 5 and 10", "statistics", "Numbers: 3, 5, 10\nmean: 6\n"},
	{"what is the average of the numbers 2, 4, 4, 5?", "statistics", "Numbers: 2, 4, 4, 5\nmean: 3.75\n"},
	{"find the largest and the smallest number in [7, -3, 12]", "statistics", "Numbers: 7, -3, 12\nmin: -3\nmax: 12\n"},
	{"standard deviation of 2, 4, 4, 4, 5, 5, 7, 9", "statistics", "Numbers: 2, 4, 4, 4, 5, 5, 7, 9\nstdev: 2.1381\n"},
	{"sum of 1.5, 2.5 and 3", "statistics", "Numbers: 1.5, 2.5, 3\nsum: 7\n"},
	{"Compute the mean, median and mode of the 5 numbers 1, 2, 2, 3, 4 and print the result as JSON", "statistics", ""},
	{"Print the first 10 Fibonacci numbers", "fibonacci", "0, 1, 1, 2, 3, 5, 8, 13, 21, 34\n"},
	{"write a function that generates fibonacci numbers up to 50", "fibonacci", "0, 1, 1, 2, 3, 5, 8, 13, 21, 34\n"},
	{"compute the 30th Fibonacci number", "fibonacci", "Fibonacci(30) = 832040\n"},
	{"print 0 fibonacci numbers", "fibonacci", "none\n"},
	{"Calculate the 20th Fibonacci number recursively", "fibonacci_recursive", "Fibonacci(20) = 6765\n"},
	{"List all primes up to 30", "primes", "2, 3, 5, 7, 11, 13, 17, 19, 23, 29\n"},
	{"Show me the first 5 prime numbers", "primes", "2, 3, 5, 7, 11\n"},
	{"Is 97 prime?", "primes", "97 is prime\n"},
	{"check whether 91 is a prime number", "primes", "91 is not prime\n"},
	{"what is the 10th prime", "primes", "Prime number 10: 29\n"},
	{"print primes below 10 as JSON", "primes", ""},
	{"Find the prime factors of 360", "prime_factors", "360 = 2 x 2 x 2 x 3 x 3 x 5\n"},
	{"compute the factorial of 5", "factorial", "5! = 120\n"},
	{"factorial of 0", "factorial", "0! = 1\n"},
	{"Write a recursive factorial function for 20", "factorial", "20! = 2432902008176640000\n"},
	{"greatest common divisor of 48 and 36", "gcd", "gcd of [48, 36]: 12\n"},
	{"What is the least common multiple of 4, 6 and 10?", "lcm", "lcm of [4, 6, 10]: 60\n"},
	{"list the divisors of 12", "divisors", "Divisors of 12: 1, 2, 3, 4, 6, 12\n"},
	{"FizzBuzz from 1 to 5", "fizzbuzz", "1\n2\nFizz\n4\nBuzz\n"},
	{"Write fizz buzz for the first 15 numbers", "fizzbuzz", ""},
	{"Is \"racecar\" a palindrome?", "palindrome", "'racecar' is a palindrome\n"},
	{"check if 'hello' is a palindrome", "palindrome", "'hello' is not a palindrome\n"},
	{"Reverse the string \"hello\"", "reverse_string", "olleh\n"},
	{"Count the words in \"the quick brown fox\"", "count_text", "words: 4\n"},
	{"How many vowels are in 'education'?", "count_text", "vowels: 5\n"},
	{"Are \"listen\" and \"silent\" anagrams?", "anagram", "'listen' and 'silent' are anagrams\n"},
	{"Encrypt \"Hello\" with a Caesar cipher with shift 3", "caesar", "Khoor\n"},
	{"Apply rot13 to \"Hello\"", "", ""},
	{"encode \"Hello\" with ROT13", "caesar", "Uryyb\n"},
	{"Convert 1994 to a Roman numeral", "to_roman", "1994 = MCMXCIV\n"},
	{"convert the Roman numeral MCMXCIV to a number", "from_roman", "MCMXCIV = 1994\n"},
	{"Convert 42 to binary", "to_base", "binary: 101010\n"},
	{"convert 255 to hexadecimal and binary", "to_base", "binary: 11111111\nhexadecimal: ff\n"},
	{"convert binary 1010 to decimal", "from_base", "1010 in binary = 10\n"},
	{"Convert 100 degrees Celsius to Fahrenheit", "temperature", "100 celsius = 212 fahrenheit\n"},
	{"convert 10 miles to kilometers", "units", "10 miles = 16.0934 kilometers\n"},
	{"Is 2024 a leap year?", "leap_year", "2024 is a leap year\n"},
	{"check if 1900 is a leap year", "leap_year", "1900 is not a leap year\n"},
	{"how many days between 2024-01-01 and 2024-03-01", "days_between", "Days from 2024-01-01 to 2024-03-01: 60\n"},
	{"What day of the week is 2024-02-29?", "weekday", "2024-02-29 is a Thursday\n"},
	{"Print the multiplication table of 7", "multiplication_table", ""},
	{"Multiply two matrices", "matrix_multiply", "19 22\n43 50\n"},
	{"transpose a matrix", "matrix_transpose", "1 4\n2 5\n3 6\n"},
	{"Remove duplicates from 1, 2, 2, 3, 1", "unique", "1, 2, 3\n"},
	{"Sort the numbers 5, 3, 9 and 1", "sort_numbers", "1, 3, 5, 9\n"},
	{"sort 5, 3, 9, 1 in descending order", "sort_numbers", "9, 5, 3, 1\n"},
	{"Implement bubble sort for the list [3, 1, 2]", "sort_numbers", "1, 2, 3\n"},
	{"Write a quicksort algorithm", "sort_numbers", "3, 4, 7, 8, 11, 15, 16, 19, 23, 42\n"},
	{"merge sort 4, 2, 8, 1", "sort_numbers", "1, 2, 4, 8\n"},
	{"Sort the words \"pear\", \"apple\", \"fig\" alphabetically", "sort_words", "apple\nfig\npear\n"},
	{"Sort these words: banana, apple and cherry", "sort_words", "apple\nbanana\ncherry\n"},
	{"binary search for 7 in 1, 3, 5, 7, 9", "", ""},
	{"Implement binary search in a sorted list", "binary_search", ""},
	{"Print the Collatz sequence starting at 6", "collatz", "6 -> 3 -> 10 -> 5 -> 16 -> 8 -> 4 -> 2 -> 1\nSteps: 8\n"},
	{"print 4 rows of Pascal's triangle", "pascal", "1\n1 1\n1 2 1\n1 3 3 1\n"},
	{"Solve the Tower of Hanoi with 2 disks", "hanoi", "Move disk 1 from A to B\nMove disk 2 from A to C\nMove disk 1 from B to C\nMoves: 3\n"},
	{"Solve the 6 queens problem", "nqueens", ""},
	{"sum of the digits of 12345", "digit_sum", "Sum of the digits of 12345: 15\n"},
	{"Is 153 an Armstrong number?", "armstrong", "153 is an Armstrong number\n"},
	{"print the Armstrong numbers up to 500", "armstrong", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 153, 370, 371, 407\n"},
	{"find perfect numbers up to 1000", "perfect", "6, 28, 496\n"},
	{"Generate 5 random numbers between 1 and 10 with seed 7", "random_numbers", "*"},
	{"generate a random password with 12 characters and seed 3", "password", "*"},
	{"Implement a stack class in Python", "stack", "*"},
	{"write a queue data structure", "queue", ""},
	{"Create a simple bank account class with deposit and withdraw", "bank_account", ""},
	{"implement a singly linked list", "linked_list", "1 -> 2 -> 3\n"},
	{"Compute the SHA-256 hash of \"hello\"", "hash", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"},
	{"Encode \"hello\" as base64", "base64", "aGVsbG8=\n"},
	{"decode the base64 string \"aGVsbG8=\"", "base64", "hello\n"},
	{"parse the URL https://example.com:8080/a?x=1#f", "url_parts", "scheme: https\nhost: example.com\nport: 8080\npath: /a\nquery: x=1\nfragment: f\n"},
	{"Extract the email addresses from \"write to a@b.com or c@d.org\"", "emails", "a@b.com\nc@d.org\n"},
	{"Count the frequency of each word in \"a b a\"", "word_frequency", "a: 2\nb: 1\n"},
	{"Print hello world", "hello", "Hello, World!\n"},
	{"hello world in javascript", "hello", "*"},
	{"Convert \"Hello there\" to uppercase", "case", "HELLO THERE\n"},
	{"write a CSV file of squares to squares.csv", "csv_squares", "Wrote squares.csv\n"},
	{"Write the text \"hello\" to a file called out.txt", "write_text", "Wrote out.txt\n"},
	{"sum of the squares from 1 to 10", "sum_range", "Sum: 385\n"},
	{"compute the sum of the numbers from 1 to 100", "sum_range", "Sum: 5050\n"},
	{"sum of even numbers up to 10", "sum_range", "Sum: 30\n"},
	{"print the squares of the numbers from 1 to 3", "squares", "1 -> 1\n2 -> 4\n3 -> 9\n"},
	{"2 to the power of 100", "power", "2 to the power of 100 = 1267650600228229401496703205376\n"},
	{"square root of 16", "sqrt", "Square root of 16: 4\n"},
	{"Is 7 even or odd?", "parity", "7 is odd\n"},
	{"solve the quadratic equation with coefficients 1, -3 and 2", "quadratic", "x = 2\nx = 1\n"},
	{"Find all primes between 10 and 20", "primes", "11, 13, 17, 19\n"},
	{"check if a number is prime", "primes", "97 is prime\n"},
	{"generate the fibonacci sequence up to the 6th term", "fibonacci", "0, 1, 1, 2, 3, 5\n"},
	{"print armstrong numbers between 100 and 400", "armstrong", "153, 370, 371\n"},
	{"Write a script to find the LCM of 12 and 18", "lcm", "lcm of [12, 18]: 36\n"},
	{"output the first 5 primes as a JSON array", "primes", ""},
	{"Print the numbers from 1 to 3", "count", "1\n2\n3\n"},
	{"Print the even numbers from 1 to 5", "count", "2\n4\n"},
	{"compute 2^10", "power", "2 to the power of 10 = 1024\n"},
	{"solve n-queens for n = 4", "nqueens", ""},
	{"Write a script that writes the squares of the numbers 1 to 10 to squares.csv", "csv_squares", "Wrote squares.csv\n"},
	{"Roll 3 dice with seed 1", "random_numbers", "*"},
	{"Compute the sum of the squares of the numbers from 1 to 1000 and collect them in a list", "sum_range", "Sum: 333833500\n"},
	{"count down from 3 to 1", "count", "3\n2\n1\n"},
	{"print \"hi there\" 2 times", "print_text", "hi there\nhi there\n"},
	{"reverse the list 1, 2, 3", "reverse_list", "3, 2, 1\n"},
}

func TestMatching(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	runs := map[string]int{} // of each program
	for _, c := range matching {
		if c.program == "" {
			continue
		}
		t.Run(c.sentence, func(t *testing.T) {
			p, err := m.plan(c.sentence)
			if err != nil {
				t.Fatalf("declined: %v", err)
			}
			if p.Parameters[programKey] != c.program {
				t.Fatalf("program %q, want %q", p.Parameters[programKey], c.program)
			}
			// T1 runs one sentence of every second program, T2 all.
			runs[c.program]++
			if (runs[c.program] > 1 || len(runs)%2 == 0) && !tier.Soaking() {
				return
			}
			got := map[api.Language]string{}
			for _, lang := range []api.Language{api.Python, api.JavaScript} {
				needInterpreter(t, lang)
				q := *p
				q.Language = lang
				a, err := m.code(q)
				if err != nil {
					t.Fatal(err)
				}
				res := runLocal(t, *a, 20*time.Second)
				if !res.OK || strings.TrimSpace(res.Stdout) == "" {
					t.Fatalf("%s failed: %+v\n%s", lang, res, a.Files[0].Content)
				}
				got[lang] = res.Stdout
				if c.output != "" && c.output != "*" && res.Stdout != c.output {
					t.Errorf("%s printed %q, want %q", lang, res.Stdout, c.output)
				}
				again, err := m.code(q)
				if err != nil || again.Files[0].Content != a.Files[0].Content {
					t.Errorf("%s: not deterministic", lang)
				}
			}
			py, js := got[api.Python], got[api.JavaScript]
			if p.Output == api.OutputJSON {
				strip := strings.NewReplacer(" ", "")
				py, js = strip.Replace(py), strip.Replace(js)
			}
			if c.output != "*" && py != js {
				t.Errorf("python printed %q, javascript %q", py, js)
			}
		})
	}
}

// TestRandomIsRandom runs programs twice: without a seed in the request they must not print
// the same, and with one they must.
func TestRandomIsRandom(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	for sentence, same := range map[string]bool{
		"generate a random password with 24 characters":            false,
		"generate a random password with 24 characters and seed 3": true,
		"print 10 random numbers between 1 and 100000":             false,
		"print 10 random numbers from 1 to 100000 with seed 7":     true,
	} {
		for _, lang := range []api.Language{api.Python, api.JavaScript} {
			needInterpreter(t, lang)
			p, err := m.plan(sentence)
			if err != nil {
				t.Fatal(err)
			}
			p.Language = lang
			a, err := m.code(*p)
			if err != nil {
				t.Fatal(err)
			}
			one, two := runLocal(t, *a, 20*time.Second), runLocal(t, *a, 20*time.Second)
			if !one.OK || !two.OK || (one.Stdout == two.Stdout) != same {
				t.Errorf("%q in %s: %q, then %q\n%s", sentence, lang, one.Stdout, two.Stdout, a.Files[0].Content)
			}
		}
	}
}
