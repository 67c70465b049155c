// Package sessions has the tables session and session_turn: conversations with agents.
//
//	t := sessions.Table{Read: db, InTx: inTx, InsertError: explain, WrapError: wrap}
//	err := t.InsertSession(ctx, s, 100)
//
// A Table has nothing to close and lives as long as its database. The package must not know how a database is opened, or its
// other tables but the events of a session that is removed.
package sessions
