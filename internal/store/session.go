package store

import (
	"context"
	"time"

	"hortus.dev/api"
)

// MaxSessionDoc is the maximum size of the document of a session or of one of its turns, in bytes.
const MaxSessionDoc = 1 << 20

// Session is a session as it is stored: what is looked for, and a document of its user.
type Session struct {
	ID api.SessionID
	// Account owns it; empty is the operator's own. Key is unique among the sessions of an account that are not closed.
	Account, Key string
	Owner        api.OwnerID
	Closed       bool
	CreatedAt    time.Time
	// EndedAt is zero until it is closed.
	EndedAt time.Time
	Doc     []byte
}

// SessionTurn is a turn of a session as it is stored. N counts from 1.
type SessionTurn struct {
	N   int
	Doc []byte
}

// Sessions are the rows of conversations with agents. What an owner stores of a session that is not its own, or that is closed, is
// KindConflict.
type Sessions interface {
	// InsertSession stores a session with turns. KindExists if its ID or its key is taken, KindExhausted if the account has most
	// sessions that are not closed.
	InsertSession(ctx context.Context, s Session, most int, turns ...SessionTurn) error
	// UpdateSession replaces the row of a session of owner, whose owner may change, and stores turns, in one transaction.
	UpdateSession(ctx context.Context, owner api.OwnerID, s Session, turns ...SessionTurn) error
	// Session reads one, SessionByKey one that is not closed; KindNotFound if there is none.
	Session(ctx context.Context, id api.SessionID) (Session, error)
	SessionByKey(ctx context.Context, account, key string) (Session, error)
	// SessionsOf lists those of an account, the newest first, at most limit; closed ones too if all is set.
	SessionsOf(ctx context.Context, account string, all bool, limit int) ([]Session, error)
	// OpenSessions lists the sessions of everybody that are not closed, the oldest first.
	OpenSessions(ctx context.Context) ([]Session, error)
	// SessionTurns lists the turns of a session by their numbers.
	SessionTurns(ctx context.Context, id api.SessionID) ([]SessionTurn, error)
	// PruneSessions removes closed sessions, with their turns and events, that ended before a time. It returns the number.
	PruneSessions(ctx context.Context, before time.Time) (int, error)
}
