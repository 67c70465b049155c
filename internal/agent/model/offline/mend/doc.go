// Package mend lists the small edits that may repair a program, the likeliest
// first: what a programmer would try who sees a failing test and the code, and
// nothing that needs an understanding of what the program is for.
//
// It reads sources in Python, JavaScript and Go with one small lexer, finds from
// the failure which functions are suspect (the frames of a traceback, what the
// failing tests call and the passing ones do not), and changes one place at a
// time: an operator, a bound, a name, an argument, a constant, a missing word, or
// what a compiler's message asks for. It never edits a test.
//
// Everything is a function of its input, and the same input gives the same list.
// The package must not know models, tools or how an edit is tried. Sources are
// hostile only in so far as they may be large or strange: all lists are bounded.
package mend
