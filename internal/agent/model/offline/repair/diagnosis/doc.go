// Package diagnosis corrects programs by the error that they end with: patterns of the errors
// of Python, Node and the shell, and the correction that each of them asks for.
//
//	d := diagnosis.Diagnose(request) // a changed program, or a question for a person
//	list := diagnosis.Corrections(api.Python, files, output)
//
// A rule corrects what the error names and nothing else; if only a person can decide, it
// asks. Everything is a function of its input. Programs and errors are hostile only in that
// they may be long: longer sources than [MaxSource] are not searched. The package must not
// know models, tools or how a program is run.
package diagnosis
