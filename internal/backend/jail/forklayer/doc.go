// Package forklayer mounts the layers that forks of files make, each once for all sandboxes of this process.
//
// A layer is an EROFS image with what a sandbox had written when it was forked. The children have it below their
// own upper layers, read-only. Its file has hard links in the directories of the sandboxes that use it, and is named
// by a random text, which is the name of the mount here as well. A mount lives as long as one who has opened it, or a
// sandbox that has a clone of it.
//
// The package must not know what is in a layer, nor which sandboxes use it.
//
//	l, err := mounts.Open(name, "/path/of/its/file")
//	defer l.Close()
//	fd, err := l.Clone()
package forklayer
