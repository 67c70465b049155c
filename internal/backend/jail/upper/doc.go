// Package upper saves the upper layers of a sandbox's overlays in one file and
// unpacks them into others. It is what a fork or a snapshot of files is made of: its
// cost is that of what was written, whatever lies below.
//
// [Write] reads directories on the host, while nothing in the sandbox runs. [Reader]
// fills empty ones, in the stage of a sandbox that is being born: inside its
// namespaces, with its ids, on the disk that bounds it.
//
// # What is kept
//
// Files with their holes, directories, links of both kinds, fifos and sockets; modes,
// owners as they are inside, times of change; whiteouts and opaque directories, by
// which an overlay hides what lies below. Of extended attributes nothing else is
// kept. An access list is left out by what it allows: the group keeps no more than
// the list gave it.
//
// # What it does not trust
//
// All that it reads was written by a guest. [Write] walks by descriptors, one
// name at a time, follows no link, crosses no mount and opens nothing but regular
// files and directories. A tree that is deeper, larger or has more entries than it
// may have is refused, as is a device or a mark of the overlay's that our overlays do
// not write. A saved file holds single names, no paths but those of hard links, which
// are resolved beneath the directory without links: [Reader] creates every entry anew
// and refuses one that exists, so that nothing leads out of the directory that it
// fills, whatever the file says. It trusts no length in it.
//
// The package must not know sandboxes or mounts. Nothing of it outlives a call but
// what was written.
package upper
