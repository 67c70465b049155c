// Package beneath reads and removes directory trees that guests wrote, by descriptors: no path leaves
// its directory, follows a link, or reaches another file system.
//
//	dir, err := beneath.OpenDir(root, "upper")
//	...
//	err = beneath.Names(dir, func(name string) error { ... })
//
// The package must not know what a tree is for. It keeps no state: the caller closes the
// descriptors that it gets.
package beneath
