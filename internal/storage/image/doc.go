// Package image makes the trees that templates stand for. It has one: the host
// template, a filtered read-only view of this machine, so that a fresh machine
// needs no image.
//
// # What the host template shows
//
// Programs and libraries: /usr and, where they are directories of their own,
// /bin, /sbin and /lib*; each under a mask of whiteouts that hides what is not
// readable by everybody, what is setuid or setgid, and every device, socket and
// pipe. Of a toolchain outside /usr a file with a name under which package managers keep credentials is hidden too. What is mounted below
// such a tree gets a mask and a mount of its own; a file
// that is a mount point is hidden. A toolchain outside /usr (below the user's home or /opt) is shown at
// /opt/<name> when its place is on the list in tools.go, no link leads there, and either /usr lacks a program of its
// kind or Config.Toolchains names it; never a directory above it. /opt/hortus/bin has what the template adds: the
// sandbox's sudo and, where the machine has a python3 and no python, a link of that name.
//
// A small /etc: what programs need to resolve names of users, libraries,
// certificates, time zones and media types. Some of it is written here, the rest
// copied from an allow list; passwords, keys, credentials and the configuration
// of package managers (which may hold tokens) are not on it, and a file with a
// private key in it is left out wherever it lies.
//
// Nothing of /root, /home, /var, /run or the caller's environment.
//
// The mask is made of names, at one moment. What holds without it: the mounts
// are read-only, nosuid and nodev, and the sandbox's ids mean nothing to the
// files of the host, so that a file which loses its world-readable bit later is
// refused by its mode.
//
// # Fingerprint
//
// The tree is named by a fingerprint of what it was made from, see Fingerprint:
// cheap enough to take at every start. A template lives in the layer store until
// it is removed there; a machine that changed gets another one beside it.
//
// The package must not know sandboxes or backends; it mounts nothing.
//
// # Reasons
//
// A container image is layers of the store, named by the digests of their uncompressed
// archives, so that images share them. Two small layers lie on top: one with the directories of
// mounts, so that a link of the image there is not followed, and one with the image's users and
// settings. Setuid bits, capabilities and devices are left out. An image without USER runs as
// root, as in Docker. Only the operator pulls, with the operator's credentials and disk.
package image
