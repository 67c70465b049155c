// Package disk makes the disk that a virtual machine writes to: a sparse file with an empty ext4 file system, which the
// kernel of the machine mounts.
//
//	f, err := os.Create(path)
//	err = disk.Format(f, disk.Config{Bytes: 1 << 30, Inodes: 100_000})
//
// The file system has no journal, because it is used by one machine and ends with it. Formatting writes two blocks for
// each 128 MiB, and takes about a millisecond. The package must not know what is written.
package disk
