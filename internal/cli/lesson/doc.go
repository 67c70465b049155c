// Package lesson has the commands for lessons: what earlier tasks learned about failures.
//
// The package must not know the daemon: it speaks to the client. A command lives for one call.
//
//	type grammar struct {
//		Lesson lesson.Command `cmd:"" help:"..."`
//	}
package lesson
