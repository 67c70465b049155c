// Package lastline says, now and then, the last line of what a gate prints.
//
//	w := lastline.New(time.Now, say)
//	w.Take(output)
//
// A [Watch] has nothing to close. The package must not know what is run.
package lastline
