// Package redact takes secrets out of texts: values that it is given, and what looks like a key.
//
//	r := redact.New([]string{os.Getenv("API_KEY")})
//	text, places := r.Redact(output)
//
// What looks like a key is found by its form, so a password that is a word is found by its value only. A [Redactor]
// is not changed once it is made, may be used by several goroutines and has nothing to close. The package must not
// know where texts come from or go to.
package redact
