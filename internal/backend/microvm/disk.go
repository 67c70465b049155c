package microvm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// findFormatter finds mke2fs, which is often not on the PATH of users.
func findFormatter() (path string, err error) {
	for _, dir := range []string{"", "/sbin", "/usr/sbin"} {
		if path, err = exec.LookPath(filepath.Join(dir, "mke2fs")); err == nil {
			break
		}
	}
	return path, err
}

// diskFeatures are those of the file system of a machine's disk, whatever mke2fs prefers: the kernel of the machine may be older.
// It has no journal, because it ends with its machine.
const diskFeatures = "none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,uninit_bg"

// diskBytes is the size of a disk on which files can have so many bytes.
func diskBytes(bytes, inodes int64) int64 {
	const inodeSize, page = 256, 4 << 10
	size := bytes + inodes*inodeSize + bytes/(8<<10) // tables of inodes, bitmaps and descriptors of each 128 MiB
	size += min(bytes/32, 16<<20) + 1<<20            // what the kernel reserves for itself, and the superblocks
	return size + (page-size%page)%page
}

// format makes an empty ext4 file system in an empty file, which gets its size. Blocks that are not used are gaps of the file.
func (h *host) format(ctx context.Context, f *os.File, bytes, inodes int64) error {
	if err := f.Truncate(diskBytes(bytes, inodes)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, h.formatter, "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0", "-N", strconv.FormatInt(inodes, 10),
		"-O", diskFeatures, "-E", "nodiscard,lazy_itable_init=1", f.Name())
	cmd.Env = []string{"MKE2FS_CONFIG=" + os.DevNull, "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format a disk with mke2fs: %w: %.300s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
