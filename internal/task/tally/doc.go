// Package tally counts what tasks came to.
//
// It sees one task at a time and keeps sums alone, so that its memory does not
// grow with the number of tasks: names that come from programs and models are
// bounded in number and length. [Fold] keeps such sums for tasks that are not stored any
// more. It must not know where tasks are stored or who
// asks. A [Tally] is for one goroutine and holds nothing that needs closing.
package tally
