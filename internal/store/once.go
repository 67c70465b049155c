package store

import "time"

// Once is an idempotent request: its key within an account, its digest, and its answer when
// it has one.
type Once struct {
	Account, Key string
	Request      []byte // a digest
	// Done is true once it is answered. Answer is nil if it was too long to store.
	Done   bool
	Answer []byte
	// At ExpiresAt the row expires.
	CreatedAt, ExpiresAt time.Time
}
