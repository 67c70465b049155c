// Package rundir keeps the on-disk state of a running machine, in its run directory. With
// it another daemon adopts the machine or destroys it after the daemon that started it
// has ended.
//
// It must not know how a machine is started, adopted or destroyed.
//
// There are two files. The pid file exists from the moment the first process exists; the
// record is written before the guest starts to serve. Both end with the run directory.
//
//	err := r.Write(dir)
//	...
//	r, err := rundir.Read(dir, id) // in another daemon
package rundir
