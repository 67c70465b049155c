// Package process is the backend for trusted code: commands run as ordinary processes of this
// host, with a cleaned environment, their own temporary directory, and the limits that a process
// can have.
//
// It isolates nothing. A command can read what the daemon's user can read and open any
// connection, and the report says so (CapIsolated, CapPrivateFiles and CapNoNetwork are missing);
// "auto" never selects it.
//
// A machine is one guest process in its own session, which is the subreaper of everything that it
// starts, and a directory below Config.Dir. Every process of it has the sandbox's id in its
// environment. Kill and Reclaim find them by that variable and by their descent. Code that removes
// the variable and daemonizes can hide; such code must not run here.
//
// The package must not know another backend, the manager's internals, or what commands mean.
//
//	b, err := process.New(process.Config{Dir: dir, Guest: guest, Path: os.Getenv("PATH")})
package process
