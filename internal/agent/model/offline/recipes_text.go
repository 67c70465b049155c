package offline

import "strings"

func textRecipes() []recipe {
	phrase := param{name: "text", kind: text, def: defaultText}
	js := param{name: "json", kind: flag}
	const nouns = "string text sentence phrase word "
	return []recipe{
		{name: "hello", phrase: "hello world", task: "print Hello, World!", needs: []string{"helloworld"}, also: "message classic"},
		{name: "palindrome", phrase: "whether a text is a palindrome", task: "say for each text whether it is a palindrome: {{short .texts}}",
			needs: []string{"palindrome|palindromic"}, also: nouns + "check test ignore case number", params: []param{{name: "texts", kind: texts, def: "racecar\nhello\nA man, a plan, a canal: Panama"}},
			derive: func(r *reading, p map[string]string) bool {
				if len(r.texts) > 0 {
					p["texts"] = strings.Join(r.texts, "\n")
				}
				return true
			}},
		{name: "reverse_string", phrase: "a text reversed", task: "reverse the text {{short .text}}",
			needs: []string{"reverse|backward|backwards"}, also: nouns + "character letter", params: []param{phrase},
			derive: func(r *reading, p map[string]string) bool {
				return len(r.texts) > 0 && !holds(r, "word", "letter") || holds(r, "string", "text")
			}},
		{name: "count_text", phrase: "words, characters, lines or vowels of a text", task: "count the {{.what}} of the text {{short .text}}",
			needs: []string{"count|howmany|number|length|counter", "word|character|letter|line|vowel|consonant|char|length"}, also: "string text sentence phrase",
			params: []param{phrase, {name: "what", kind: set, def: "characters", words: "word=words character=characters char=characters length=characters letter=letters line=lines vowel=vowels consonant=consonants"}},
			derive: func(r *reading, p map[string]string) bool { return !holds(r, "unique", "each") }},
		{name: "anagram", phrase: "whether two texts are anagrams", task: "say whether {{short .first}} and {{short .second}} are anagrams",
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
				return holds(r, "frequency", "frequent", "occurrence", "occur", "often", "appear", "count", "howmany")
			}},
		{name: "case", phrase: "upper, lower or title case of a text", task: "convert the text {{short .text}} to {{.mode}} case",
			needs: []string{"uppercase|lowercase|titlecase|capitalize|capitalise"}, also: nouns + "convert letter change turn",
			params: []param{phrase, {name: "mode", kind: choice, words: "uppercase=upper lowercase=lower titlecase=title capitalize=title capitalise=title"}}},
		{name: "sort_words", phrase: "words in alphabetical order", task: "sort the words {{short .words}}{{if eq .order \"desc\"}} in reverse order{{end}}",
			needs: []string{"sort|alphabetically|alphabetical|alphabetize"}, also: "word string name list array order alphabet ascending",
			params: []param{{name: "words", kind: texts, def: "pear\napple\ncherry\nbanana"}, {name: "order", kind: choice, def: "asc", words: "reverse=desc descending=desc"}},
			derive: func(r *reading, p map[string]string) bool {
				return len(r.texts) > 0 || holds(r, "word", "string", "name")
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
