// Package perkey has locks of which each is of one key: who works on one row or one name does
// not wait for who works on another.
//
//	var rows perkey.Locks
//	unlock, err := rows.Lock(ctx, string(id))
//	if err != nil {
//		return err
//	}
//	defer unlock()
//
// Such a lock may be held during a call of a disk or a database, because only those wait for it
// who need the same row. A key that nobody holds costs no memory.
//
// The package must not know what the keys mean. The zero [Locks] has no key that is held; it
// has no goroutine and needs no Close.
package perkey
