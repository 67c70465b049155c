// Package credential changes the credentials of single threads: capabilities, groups and
// the ids that decide over files.
//
// The kernel keeps credentials per thread, and so does this package: every function but
// [ClearAmbient] changes the calling thread only, by raw system calls, where the package
// syscall would change all threads of the process. The caller locks its goroutine to its
// thread, or uses [Switcher.As], which does so and restores the thread afterwards:
//
//	err := switcher.As(user, func() error {
//		f, err = os.Open(path) // with the user's rights
//		return err
//	})
//
// A thread that cannot be restored is never used again: As panics, and the goroutine takes
// the thread along. The package knows identities by their numbers only, and nothing of
// files, commands or requests.
package credential
