// Package credential changes the credentials of single threads: capabilities, groups and
// the ids that determine access to files.
//
// The kernel keeps credentials per thread. Every function except [ClearAmbient] changes only
// the calling thread, by raw system calls; package syscall would change all threads of the
// process. The caller locks its goroutine to its thread, or uses [Switcher.As], which does so
// and restores the thread afterwards:
//
//	err := switcher.As(user, func() error {
//		f, err = os.Open(path) // with the user's rights
//		return err
//	})
//
// A thread that cannot be restored is never used again: As panics, which ends the goroutine
// and its thread. The package uses only the numbers of identities. It must not depend on
// files, commands or requests.
package credential
