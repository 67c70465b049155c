// Package edit lists the small edits that may repair a program, most likely first: what a
// programmer would try who sees a failing test and the code, without understanding what the
// program is for.
//
//	edits := edit.List(files, edit.Failure{Output: output, Root: root}, nil)
//	text, ok := edits[0].Apply(files[0].Text)
//
// It reads sources in Python, JavaScript and Go with one small lexer, finds from the failure
// which functions are suspect (the frames of a traceback; what the failing tests call and
// the passing ones do not; the lines of a [Trace]), and changes one place at a time: an
// operator, a bound, a name, an argument, a constant, a missing word, or what a compiler's
// message asks for. It never edits a test.
//
// The same input gives the same list. The package must not know models, tools or how an edit
// is tried. Sources may be large or strange, so all lists are bounded.
package edit
