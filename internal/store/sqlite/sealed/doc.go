// Package sealed encrypts what rows of a database have of secret values: environment variables of
// sandboxes and tasks, and secrets. The key is in a file beside the database.
//
//	s, err := sealed.Open(path)
//	doc, err := s.Sandbox(row) // what is stored
//	row = s.OpenSandbox(doc)
//
// A Sealer keeps the key in memory and has nothing to close. The package must not know how a
// database is opened, nor its tables; package sqlite calls it.
package sealed
