// Package words holds the list of words that the project does not use in what people
// and models read: documents, command help, error messages, progress and prompts. Each
// word has a plainer one of the field beside it. The test reads the documents and every
// string of the source.
//
// The package has no code: the list is in words.txt, one rule on each line.
package words
