// Package checkout reads and changes the checkouts of the user who runs this process.
//
// A [User] has a configuration of git and checkouts. [User.Apply] and [User.Import]
// change a checkout; everything else only reads. A checkout may be hostile, for instance
// an unpacked archive: commands of git run in a shadow of it (package shadow), so that its
// configuration, hooks and filters do not run. Whether the user's own configuration has a
// value, and which address a remote has, is read by two commands that only read a
// configuration.
//
// Nothing stays open: each call runs a few git processes and ends with them.
//
//	info, err := checkout.User{}.Toplevel(ctx, "/home/alice/project/src")
//	if err != nil {
//		return err
//	}
//	fmt.Println(info.Root, info.Branch, info.Dirty)
//
// The package must not know the daemon, its cache of repositories, or a forge.
package checkout
