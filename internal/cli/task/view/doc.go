// Package view shows tasks to people: progress while they run, the verdict at the end, gates,
// failed tests, patches, transcripts and statistics. It must not know the commands.
//
//	p := view.NewProgress(env, quiet, task.ID)
//	defer p.Close()
//	for e := range events {
//		p.Event(e)
//	}
//	p.Verdict(task, took)
//
// All text of models, guests and repositories is sanitized here. A Progress has one
// goroutine on a terminal, for its status line, until Close.
package view
