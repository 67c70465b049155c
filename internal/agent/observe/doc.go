// Package observe turns what a program did into what the next role reads: the
// head and the tail of its output, and the category of its failure.
//
// Output is hostile in size and content. A [Capture] keeps a fixed amount of it
// in memory, whatever a program writes. The package must not know sandboxes,
// models or tasks, and it judges nothing beyond the text of an error.
package observe
