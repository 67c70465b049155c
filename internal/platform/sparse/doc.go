// Package sparse writes files whose blocks of zeros take no space.
//
//	f, err := os.Create("image")
//	...
//	err = sparse.Copy(f, r)
//
// A file that was sparse where it came from takes no more of the disk here than it has content.
// The package keeps nothing, and must not know whose file it is.
package sparse
