// Package upper saves the upper layers of a sandbox's overlays in one file and restores them into
// others. Forks and snapshots of files consist of that file: its cost depends on what was
// written, not on the layers below.
//
// [Write] reads directories on the host, while nothing in the sandbox runs. [Reader] fills empty
// directories in the stage of a new sandbox: inside its namespaces, with its ids, on its
// size-limited disk.
//
// # What is kept
//
// Files with their holes, directories, hard and symbolic links, fifos and sockets; modes, owners
// as seen inside, modification times; whiteouts and opaque directories, with which an overlay
// hides entries of lower layers. Other extended attributes are not kept. An access list is
// dropped, and the mode keeps no more for the group than the list allowed.
//
// # What it does not trust
//
// Everything that it reads was written by a guest. [Write] walks by descriptors, one name at a
// time, follows no link, crosses no mount and opens only regular files and directories. It refuses
// a tree that exceeds the maximum depth, size or number of entries, devices, and attributes of
// overlays that our overlays do not write. A saved file contains single names and no paths except
// those of hard links, which are resolved beneath the directory without following links. [Reader]
// creates every entry itself and refuses one that exists, so that it writes nothing outside the
// directory, whatever the file contains. It trusts no length in it.
//
// [WriteLayer] saves a tree as a layer for overlays instead, and [WriteLayerSince] what has changed in it. Several
// directories that lie on each other can be saved as one tree: see [Tree].
//
// [WriteBetween] saves the difference of two roots instead, for a sandbox whose overlay is mounted by another program, such as a
// container engine; [Reader.Over] restores it over such a root.
//
// [Tar] converts a saved file into the archive of an image's layer, without creating a file.
//
// The package must not know sandboxes or mounts. A Reader lives for one file; nothing else
// outlives a call.
//
//	err := upper.Write(ctx, file, []upper.Tree{{Name: upper.Root, Dir: fd}}, options)
//
// # Reasons
//
// One file instead of a tree, because a tree of hostile names, links and setuid bits on the
// host's disk would be interpreted by the kernel and by programs that back it up. It is not tar,
// which has no record for what an overlay hides and joins names to paths. Files are saved only
// where the sandbox can be frozen: stopping processes by signals is seen by them and races with
// new ones.
package upper
