package task

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
)

// readInputs reads the files of --file: FILE, or NAME=FILE for another name in the
// program's directory. A file whose own name has an equals sign needs the second form.
func readInputs(flags []string) ([]api.InputFile, error) {
	var files []api.InputFile
	left := int64(api.MaxInputBytes)
	for _, flag := range flags {
		name, path, renamed := strings.Cut(flag, "=")
		if !renamed {
			path, name = flag, filepath.Base(flag)
		}
		content, err := readInput(path, left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(content))
		files = append(files, api.InputFile{Path: name, Content: content})
	}
	return files, nil
}

func readInput(path string, most int64) ([]byte, error) {
	bad := func(err error) ([]byte, error) {
		return nil, api.Errorf(api.KindInvalid, "--file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return bad(err)
	}
	if !info.Mode().IsRegular() {
		return nil, api.Errorf(api.KindInvalid, "--file: %s is not a regular file", path).
			WithHint("pass each file, or use a repository: hortus task --repo DIR")
	}
	f, err := os.Open(path)
	if err != nil {
		return bad(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return bad(err)
	}
	if int64(len(content)) > most {
		return nil, api.Errorf(api.KindInvalid, "--file: with %s the files have more than %d bytes", path, api.MaxInputBytes).
			WithHint("use a sandbox for more: hortus sandbox create, hortus sandbox cp FILE ID:/workspace/")
	}
	return content, nil
}
