package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// xattrPrefix begins the names of extended attributes that hold clients' metadata.
const xattrPrefix = "user.e2b."

// Entry describes a file. A link has the type and mode of its target. Entry must be called
// with the identity's rights.
func (s *Service) Entry(path string) (*envd.EntryInfo, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	e := &envd.EntryInfo{
		Name: filepath.Base(path), Path: path, Size: fi.Size(), ModifiedTime: fi.ModTime().UTC(),
		Mode: uint32(fi.Mode().Perm()), Permissions: fi.Mode().String(), Type: fileType(fi.Mode()),
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		e.Owner, e.Group = orNumber(s.ids.UserName(st.Uid), st.Uid), orNumber(s.ids.GroupName(st.Gid), st.Gid)
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			target, _ = os.Readlink(path)
		} else if tfi, err := os.Stat(target); err == nil {
			e.Type, e.Mode = fileType(tfi.Mode()), uint32(tfi.Mode().Perm())
		}
		e.SymlinkTarget = &target
	}
	if fi.Mode().IsRegular() || fi.IsDir() {
		e.Metadata = readMetadata(path)
	}
	return e, nil
}

func orNumber(name string, id uint32) string {
	switch {
	case name != "":
		return name
	case id == 0:
		return "root"
	}
	return strconv.FormatUint(uint64(id), 10)
}

func fileType(m fs.FileMode) envd.FileType {
	switch {
	case m.IsRegular():
		return envd.FileTypeFile
	case m.IsDir():
		return envd.FileTypeDirectory
	case m&fs.ModeSymlink != 0:
		return envd.FileTypeSymlink
	}
	return envd.FileTypeUnspecified
}

// readMetadata returns a file's metadata; nil if its file system has no extended
// attributes.
func readMetadata(path string) map[string]string {
	var list [8 << 10]byte
	n, err := unix.Llistxattr(path, list[:])
	if err != nil || n <= 0 {
		return nil
	}
	var out map[string]string
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		key, ok := strings.CutPrefix(name, xattrPrefix)
		if !ok {
			continue
		}
		var value [maxMetadata]byte
		n, err := unix.Lgetxattr(path, name, value[:])
		if err != nil {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = string(value[:n])
	}
	return out
}

// Error converts an error about a path to an api.Error.
func Error(path string, err error) error {
	var e *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return api.Errorf(api.KindNotFound, "path '%s' does not exist", path)
	case errors.Is(err, fs.ErrExist):
		return api.Errorf(api.KindExists, "path '%s' already exists", path)
	case errors.Is(err, fs.ErrPermission):
		return api.Errorf(api.KindDenied, "permission denied: '%s'", path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENAMETOOLONG),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBUSY), errors.Is(err, unix.EXDEV):
		return api.Errorf(api.KindInvalid, "path '%s': %v", path, syscallText(err))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return api.Errorf(api.KindExhausted, "path '%s': no space left", path)
	case errors.Is(err, unix.EROFS):
		return api.Errorf(api.KindDenied, "path '%s': the file system is read-only", path)
	}
	return api.Errorf(api.KindInternal, "path '%s': %v", path, syscallText(err))
}

// syscallText returns the text of the system error, without the call and the path.
func syscallText(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}
