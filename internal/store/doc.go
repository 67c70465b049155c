// Package store is the contract of the stores of Hortus: the interface [Store] and the rows
// that are not wire types, in one file that is read from top to bottom. An implementation is a
// folder below it (sqlite) that passes the suite in storetest, and one line of the daemon opens
// it. A consumer declares an interface with the methods that it calls, which have the same
// signatures, and never names an implementation.
//
//	type Rows interface { // in package key
//		RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (api.Key, error)
//		...
//	}
//	var s store.Store = db
//	keys := key.New(key.Config{Rows: s})
//
// # Promises of every store
//
// When a method returns nil, the change survives the death of the process. Errors are
// [hortus.dev/api.Error]s: KindNotFound for what does not exist, KindExists for a taken
// identifier, KindConflict for a state that does not allow the change, KindInvalid for an
// invalid row.
//
// Final states are final. A sandbox that is ended or lost, a task that is done,
// a workspace that is removed, a snapshot that is broken or removed and an exec that
// is exited or unknown keep that state; everything else of the row may still be written (a late byte count, a receipt).
//
// Everything that exists is a row with its owner (one run of one daemon), the
// owner's host, and a lease epoch that grows by one whenever the owner changes.
// An exec has the owner of its sandbox, an attempt that of its task. A row names
// only owners that were inserted, so that recovery can always ask whether the
// owner's lock is free. No row changes to an owner that has ended (KindConflict): an
// owner that was declared dead cannot take back what another one took over.
//
// An API key is no part of a run: it has no owner. It is stored under a hash that the
// store does not look into, found by it again, and unique by it. A key that was
// revoked stays so, from the first time on.
//
// A secret is no part of a run either. Its value is stored encrypted for its account and name, and
// returned by one method only; records of its uses outlive it.
//
// A durable run has an owner, and only that owner writes its steps and its end. Its end is one
// transaction with the last state of its task and the last event.
//
// Strings keep every byte, valid UTF-8 or not (package rowjson). Instants are
// kept in microseconds and come back in UTC; the zero time stays zero. The cause
// inside an api.Error is not kept, only its kind, message and hint.
//
// Output of programs is never stored here: an attempt has the paths of its
// files.
//
// The package must not know SQL, files or events' meaning.
//
// # Reasons
//
// Lists are pages behind a cursor, the time and ID of a row, so that a row that is removed
// between two pages leaves none out. Ended rows are kept for each account up to a number, a
// size and an age that counts from the end, and their sums stay.
package store
