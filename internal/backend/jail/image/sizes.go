package image

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// sizesName is the file of a memory image that contains the sizes of the others. A kernel
// reads its memory while it already runs, so that with a truncated file it would seem to
// have started.
const sizesName = "sizes.json"

// maxSizes is the maximum size of that file, in bytes.
const maxSizes = 4 << 10

// writeSizes writes the sizes of files of an image.
func writeSizes(dir string, names []string) error {
	sizes := map[string]int64{}
	for _, name := range names {
		st, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		sizes[name] = st.Size()
	}
	b, err := json.Marshal(sizes)
	if err != nil {
		return err
	}
	return writeNew(dir, sizesName, b)
}

// writeNew writes a file that must not exist.
func writeNew(dir, name string, b []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// readSmall reads one of the small files of an image.
func readSmall(dir, name string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSizes))
}

// CheckSizes compares the files of an image with their recorded sizes. Images of earlier
// versions have none.
func CheckSizes(dir string, files []*os.File) error {
	b, err := readSmall(dir, sizesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	sizes := map[string]int64{}
	if err == nil {
		err = json.Unmarshal(b, &sizes)
	}
	if err != nil {
		return api.Errorf(api.KindConflict, "the image's %s cannot be read: %w", sizesName, err)
	}
	for _, f := range files {
		name := filepath.Base(f.Name())
		st, err := f.Stat()
		if err != nil {
			return api.Errorf(api.KindConflict, "the image's %s cannot be read: %w", name, err)
		}
		if want, ok := sizes[name]; !ok || st.Size() != want {
			return api.Errorf(api.KindConflict, "the image is damaged: %s has %d bytes instead of %d", name, st.Size(), want)
		}
	}
	return nil
}
