package task

import (
	"bytes"
	"errors"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/cli/localfile"
)

// outDir is where --out writes. The zero value and nil write nothing.
type outDir struct {
	root *os.Root
	name string
}

func openOut(name string) (*outDir, error) {
	if name == "" {
		return &outDir{}, nil
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, api.Errorf(api.KindInvalid, "--out: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "--out: %w", err)
	}
	return &outDir{root, name}, nil
}

func (o *outDir) Close() error {
	if o.root == nil {
		return nil
	}
	return o.root.Close()
}

// write leaves a verified task's program and the files that it made.
func (o *outDir) write(t api.Task) error {
	if o.root == nil || len(t.Attempts) == 0 {
		return nil
	}
	last := t.Attempts[len(t.Attempts)-1]
	files := last.Artifact.Files
	if last.Result != nil {
		files = append(files[:len(files):len(files)], last.Result.OutputFiles...)
	}
	// A file that cannot be written does not keep the others from it.
	var failed []error
	for _, f := range files {
		mode := os.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := localfile.Write(o.root, f.Path, mode, bytes.NewReader(f.Bytes())); err != nil {
			failed = append(failed, api.Errorf(api.KindDenied, "--out %s: %w", o.name, err))
		}
	}
	return errors.Join(failed...)
}
