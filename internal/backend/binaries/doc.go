// Package binaries provides the executables that sandboxes run: the guest, and for gVisor
// sandboxes runsc. It finds them (embedded, built for a data directory, or beside the
// running program), checks that other users cannot replace them, and copies them to sealed
// memory or unpacks them into the data directory.
//
//	guest, err := binaries.Guest(dir)
//	...
//	tools, err := binaries.Unpack(binaries.Config{Dir: dir}, guest)
//	if api.KindOf(err) == api.KindUnsupported {
//		// no gVisor on this host; err says why
//	}
//
// The package must not know a manager or a daemon. The caller closes the guest's file; an
// unpacked directory stays until another build replaces it.
package binaries
