package offline

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// Catalogue lists what the model does, for those who have no use for the model itself.
func Catalogue() ([]api.CatalogueEntry, error) {
	m, err := New()
	if err != nil {
		return nil, err
	}
	return m.Catalogue(), nil
}

// Catalogue lists what the model does: the programs of the catalogue in its order,
// programs that a sentence holds, and the requests that it takes on a repository.
func (m *Model) Catalogue() []api.CatalogueEntry {
	var out []api.CatalogueEntry
	for i := range m.catalogue.recipes {
		rc := &m.catalogue.recipes[i]
		languages := []api.Language{api.Python, api.JavaScript}
		if rc.only != "" {
			languages = []api.Language{rc.only}
		}
		out = append(out, api.CatalogueEntry{
			Name: rc.name, Kind: api.CatalogueProgram, Does: rc.phrase, Example: m.catalogue.examples[rc.name], Languages: languages,
		})
	}
	var all []api.Language
	for _, name := range language.Names() {
		all = append(all, api.Language(name))
	}
	edited := []api.Language{api.Python, api.JavaScript, api.Go}
	return append(out,
		api.CatalogueEntry{Name: "given_program", Kind: api.CatalogueGiven, Does: "a program that you give, run and repaired where a pattern fits", Example: "Run this Python: print(6*7)", Languages: all},
		api.CatalogueEntry{Name: "repair", Kind: api.CatalogueRepository, Does: "a small defect that makes the tests fail", Example: "Fix the failing test", Languages: edited},
		api.CatalogueEntry{Name: "rename", Kind: api.CatalogueRepository, Does: "rename a name everywhere", Example: "Rename total to sum_all", Languages: edited},
	)
}

// readExamples returns the example sentence of each recipe by its name. A line of the table
// is "name: sentence".
func readExamples() map[string]string {
	examples := map[string]string{}
	for line := range strings.Lines(exampleTable) {
		if name, sentence, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			examples[name] = sentence
		}
	}
	return examples
}

const exampleTable = `
statistics: Compute the mean and the median of 3, 5 and 10
statistics_numpy: Compute the mean of 3, 5 and 10 with numpy
sort_numbers: Sort the numbers 5, 3, 9 and 1 with bubble sort
unique: Remove duplicates from 1, 2, 2, 3, 1
binary_search: Implement binary search in a sorted list
reverse_list: Reverse the list 1, 2, 3
random_numbers: Generate 5 random numbers between 1 and 10
factorial: Compute the factorial of 20
gcd: Greatest common divisor of 48 and 36
lcm: Least common multiple of 4, 6 and 10
prime_factors: Find the prime factors of 360
divisors: List the divisors of 12
digit_sum: Sum of the digits of 12345
power: 2 to the power of 100
sqrt: Square root of 16
parity: Is 7 even or odd?
sum_range: Sum of the squares from 1 to 10
squares: Print the squares of the numbers from 1 to 5
multiplication_table: Print the multiplication table of 7
quadratic: Solve the quadratic equation with coefficients 1, -3 and 2
matrix_multiply: Multiply two matrices
matrix_transpose: Transpose a matrix
leap_year: Is 2024 a leap year?
fibonacci: Print the first 10 Fibonacci numbers
fibonacci_recursive: Calculate the 20th Fibonacci number recursively
primes: List all primes up to 30
fizzbuzz: FizzBuzz from 1 to 15
collatz: Print the Collatz sequence starting at 6
pascal: Print 4 rows of the Pascal triangle
armstrong: Print the Armstrong numbers up to 500
perfect: Find perfect numbers up to 1000
count: Count down from 3 to 1
hello: Print hello world in JavaScript
palindrome: Is "racecar" a palindrome?
reverse_string: Reverse the string "hello"
count_text: Count the words in "the quick brown fox"
anagram: Are "listen" and "silent" anagrams?
caesar: Encrypt "Hello" with a Caesar cipher with shift 3
word_frequency: Count the frequency of each word in "a b a"
case: Convert "Hello there" to uppercase
sort_words: Sort these words: banana, apple and cherry
emails: Extract the email addresses from "write to a@b.com or c@d.org"
hash: Compute the SHA-256 hash of "hello"
base64: Encode "hello" as base64
url_parts: Parse the URL https://example.com:8080/a?x=1#f
print_text: Print "hi there" 2 times
to_roman: Convert 1994 to a Roman numeral
from_roman: Convert the Roman numeral MCMXCIV to a number
to_base: Convert 255 to hexadecimal and binary
from_base: Convert binary 1010 to decimal
temperature: Convert 100 degrees Celsius to Fahrenheit
units: Convert 10 miles to kilometers
days_between: How many days between 2024-01-01 and 2024-03-01
weekday: What day of the week is 2024-02-29?
hanoi: Solve the Tower of Hanoi with 2 disks
nqueens: Solve the 6 queens problem
password: Generate a random password with 12 characters
csv_squares: Write a CSV file of squares to squares.csv
csv_sum: Create a sample CSV file, read it back and sum a column
write_text: Write the text "hello" to a file called out.txt
stack: Implement a stack class
queue: Write a queue data structure
linked_list: Implement a singly linked list
bank_account: Create a bank account class with deposit and withdraw
`
