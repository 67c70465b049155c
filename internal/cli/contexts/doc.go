// Package contexts is the file that names daemons of other machines, with their API keys.
// It must not know commands or how a daemon is called.
//
//	file, err := contexts.Load(path)
//	err = contexts.Change(ctx, path, func(f *contexts.File) error { delete(f.Contexts, "old"); return nil })
//
// The file is for its user alone, mode 0600. It is written whole or not at all, by one
// process at a time: Change holds a lock on a file beside it. A file that is invalid is
// refused and never overwritten. Errors hold no keys.
package contexts
