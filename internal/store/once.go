package store

import "time"

// Once is a request that is answered at most once: its key within an account, what
// tells it from others, and its answer once that is known.
type Once struct {
	Account, Key string
	Request      []byte // a digest
	// Done says that it was answered. Answer is nil where that was too long to keep.
	Done   bool
	Answer []byte
	// From ExpiresAt on the row is not there any more.
	CreatedAt, ExpiresAt time.Time
}
