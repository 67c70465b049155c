// Package secrets checks requests that set secrets, for those who send them and for those who
// serve them.
//
//	if err := secrets.Check(req); err != nil {
//		return err
//	}
//
// The package must not know where values are kept or used.
package secrets
