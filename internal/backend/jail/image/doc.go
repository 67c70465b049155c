// Package image reads and writes the files of a saved sandbox: what it wrote, or the memory
// of a kernel of its own.
//
// It must not know how a sandbox is stopped for that, nor how one is started from an image.
//
// The image of a fork of files may be on layers ([Layers]), which the children share.
//
// An image is a directory of the caller. Open files belong to the caller; a save of memory
// also returns a connection, which holds the saved kernel until it is closed if that was
// asked for.
//
//	files, err := image.Open(dir, names, os.O_RDONLY)
//	defer image.Close(files)
//	err = image.CheckSizes(dir, files)
package image
