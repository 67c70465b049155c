// Package unpack writes the tar archive of one image layer into a directory, in the form that
// an overlay file system reads as a lower layer.
//
// The archive is untrusted. Its paths are resolved by the kernel, below the directory and
// without links (openat2), whatever the archive has created before; a path that leads outside
// is refused. The size, the number of entries, the depth and the length of paths are limited.
//
// # What becomes of an entry
//
//   - Directories, regular files, symbolic links and hard links are created with their owner,
//     mode and time. A later entry replaces an earlier one of the same name.
//   - A hard link must lead to a file of the same layer.
//   - ".wh.NAME" becomes a whiteout (a character device 0:0, which an ordinary user may create),
//     ".wh..wh..opq" makes its directory opaque (attribute user.overlay.opaque).
//   - Devices and named pipes are skipped: a sandbox has its own /dev.
//   - The setuid and setgid bits of files are removed. A sandbox mounts its files nosuid, so
//     they have no effect there; on the host's disk they could.
//   - Of the extended attributes only user.* are kept, without user.overlay.*. Capabilities,
//     access lists and labels are dropped for the same reason as setuid.
//   - Without Owners, the mode of a file includes the owner's read bit and that of a directory
//     all of the owner's bits: everything belongs to one user, who has to read it.
//
// An example:
//
//	res, err := unpack.Apply(ctx, archive, dir, unpack.Options{Owners: os.Geteuid() == 0})
//
// [Decompress] reads gzip, zstd or plain archives. The package holds no state and no goroutine;
// after an error the caller removes the directory. It must not know registries, images or the
// layer store.
package unpack
