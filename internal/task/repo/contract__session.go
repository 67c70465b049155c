package repo

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// Sessions keeps what outlives the turns of sessions: workspaces with their copies, and sandboxes.
type Sessions interface {
	// Workspace makes the durable files of a session above layers.
	Workspace(ctx context.Context, id api.SessionID, layers ...Layer) (api.WorkspaceID, error)
	// Copy copies a workspace as it is at one instant. Nobody has it but the computer, which is stopped meanwhile; nil for none.
	Copy(ctx context.Context, id api.SessionID, ws api.WorkspaceID, c Sandbox) (api.WorkspaceID, error)
	// Discard removes a copy that is not needed.
	Discard(ctx context.Context, ws api.WorkspaceID)
	// Take returns the computer that stayed after the last turn, running, and how it was found; nil if there is none. It may
	// live so long.
	Take(ctx context.Context, id api.SessionID, live time.Duration) (c Sandbox, how string)
	// Keep takes the computer of a turn that has ended. It reports whether it did.
	Keep(ctx context.Context, id api.SessionID, c Sandbox) bool
	// Restored is told how a turn got its computer.
	Restored(ctx context.Context, id api.SessionID, e session.RestoredEvent)
}

// Turn makes a task a turn of a session.
type Turn struct {
	Session api.SessionID `json:"session"`
	N       int           `json:"n"`
	// Transcripts are the files of the turns before, the oldest first.
	Transcripts []string `json:"transcripts,omitempty"`
	// Workspace is what the turn works in, Commit and Base what it lies on; all are empty for the first turn, which makes it.
	Workspace api.WorkspaceID `json:"workspace,omitempty"`
	Commit    string          `json:"commit,omitempty"`
	Base      string          `json:"base,omitempty"`
	// Head is the commit of the workspace before the turn; empty if nothing was changed.
	Head string `json:"head,omitempty"`
	// AgentSession is what the agent called the conversation, if it is a program.
	AgentSession string `json:"agentSession,omitempty"`
	// Stays is true if the computer may stay after the turn.
	Stays bool `json:"stays,omitempty"`
}

// Before is the result of the turn before, as far as a turn continues it; nil for the first one.
func (t *Turn) Before() *api.RepoResult {
	if t == nil || t.Workspace == "" {
		return nil
	}
	return &api.RepoResult{Workspace: t.Workspace, Commit: t.Commit, Base: t.Base}
}
