// Package session has the words for sessions: conversations with an agent, each with a workspace that outlives its
// sandboxes. It checks requests, for those who send them and for those who serve them.
//
//	req := session.Message{Text: "Fix the failing test", Create: &session.Settings{Repository: "https://example.org/web.git"}}
//	if err := req.Check(); err != nil {
//		return err
//	}
//
// No value of its types outlives its caller. A turn of a session is an [api.Task], whose events and receipt are those of every
// task. The package must not know where sessions are kept or run.
package session
