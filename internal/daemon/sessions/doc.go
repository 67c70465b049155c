// Package sessions joins the two parts of sessions in a daemon: what says the messages, and what keeps sandboxes between them.
//
//	s := sessions.Open(workspaces, checkpoints, m.Sandboxes, m.Saver, log)
//	runner := repo.New(repo.Config{Sessions: s.Sandboxes})
//	s.Begin(session.Config{Rows: db, Engine: engine})
//	s.Recover(ctx, gone)
//
// The sandboxes are there before the engine, which the rest needs. Close ends both. The package must not know what a turn does.
package sessions
