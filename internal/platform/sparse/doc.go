// Package sparse writes files whose blocks of zeros take no space.
//
//	f, err := os.Create("image")
//	...
//	err = sparse.Copy(f, r)
//	err = sparse.CopyFile(ctx, f, from) // on Linux: without reading gaps, sharing blocks where the file system can
//
// A file that was sparse where it came from takes no more of the disk here than it has content.
// The package keeps nothing, and must not know whose file it is.
package sparse
