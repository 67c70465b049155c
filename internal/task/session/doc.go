// Package session runs conversations with agents. A session has a key of its caller's, a workspace, and turns: each message is one,
// and each turn is a task of the one engine, with its budgets, events, cancellation, journal, gate and receipt.
//
//	s := session.New(session.Config{Rows: db, Engine: engine, Sandboxes: kept, Log: log, Dir: dir, TaskDir: tasks, Owner: owner})
//	turn, err := s.Send(ctx, "alice", "support-1", words.Message{Text: "Why does the test fail?", Create: &words.Settings{}})
//
// The files of the workspace, and the transcripts of the turns below Dir, are what a session is: a sandbox over the one and a history
// made of the other continue it, in this daemon or a later one. After a turn its sandbox may stay for a while, which is the
// business of [Sandboxes].
//
// # Lives
//
// A session with messages has one goroutine, which starts with the first that waits and ends with the last. The goroutine of the
// Service closes sessions that were not used for long. Close cancels the turns that run, and waits; messages that wait stay for the
// next daemon. Recover takes over the sessions of owners that have ended: a turn whose task continues is waited for, one whose task was
// never there begins again. HandOver gives sessions to other nodes of a fleet, each between two turns.
//
// Work on one session is done by one caller at a time, under a lock of its own. The package must not know a server, SQL, a model or how
// sandboxes are created.
package session
