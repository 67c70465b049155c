// Package python has tests use the interpreter of Python itself.
//
// Where a version manager such as pyenv is installed, the python3 of the PATH is a script of the shell that looks for the interpreter: it
// starts some 250 programs, which takes ten times as long as Python. A test binary that runs Python often has
//
//	func TestMain(m *testing.M) {
//		python.Direct()
//		os.Exit(m.Run())
//	}
//
// The package must not depend on any test.
package python
