// Package mount mounts images of layers, each once for all users in this process.
//
// A mount is detached: it is in no mount namespace and has no path of its own, so that nobody else on the host
// sees it, and it ends with the last descriptor or sandbox that uses it. A process that is killed leaves no mount.
//
// A [Mounter] finds out how this host mounts images: a file directly, a loop device, or not at all. The package
// must not know what an image contains.
//
//	m := mount.Find(dir)
//	if m != nil {
//		img, err := m.Mount("image.erofs")
//		fd, err := img.Clone()
//	}
package mount
