// Package words has the list of words that must not be used in text for users and models:
// documents, command help, error messages, progress and prompts. For each word it lists
// the standard term. The test reads the documents and every string of the source.
//
// The package has no code: the list is in words.txt, one rule per line.
package words
