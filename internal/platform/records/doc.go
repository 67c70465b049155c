// Package records writes records to a store in the background, in batches. Anyone who makes a record
// does not wait for the store, and records that come too fast, or while the store fails, cost
// records and never memory: what is not stored is counted for its owner, and the count is a record
// of its own.
//
//	w := records.New(records.Config[Use, Owner]{
//		What: "uses", Insert: store.Insert,
//		Owner: func(u Use) Owner { return Owner{u.Account} },
//		Gap:   func(o Owner, missed int, at time.Time) Use { return Use{At: at, Account: o.Account, Missed: missed} },
//	})
//	defer w.Close(ctx)
//	if limits.Allow(u.Account, now) {
//		w.Add(u)
//	} else {
//		w.Miss(u)
//	}
//	err := w.Flush(ctx) // before the store is read
//
// [Limits] are the rates of such records. A [Writer] has one goroutine, which Close ends and waits
// for; Limits have none. Close a Writer before its store.
//
// The package must not know what a record is about.
package records
