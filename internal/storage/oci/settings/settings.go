package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// fileName is the name of the file in the directory of a layer; maxFile its maximum size.
const (
	fileName = "image.json"
	maxFile  = 1 << 20
)

// Settings are the defaults of commands in a sandbox.
type Settings struct {
	// Env has no PATH: that is the layer's.
	Env  map[string]string `json:"env,omitempty"`
	User api.UserRecord    `json:"user"`
	// Dir is the working directory; empty for the workspace.
	Dir string `json:"dir,omitempty"`
	// Entrypoint and Cmd, which follows it, are run if a request has no command.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
}

// Command is what is run if a request has no command.
func (s Settings) Command() []string { return slices.Concat(s.Entrypoint, s.Cmd) }

// Write stores settings in the directory of a layer that is being built.
func Write(dir string, s Settings) error {
	return write(dir, fileName, maxFile, s)
}

// write stores a document in the directory of a layer that is being built.
func write(dir, name string, most int, document any) error {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(document); err != nil {
		return err
	}
	if b.Len() > most {
		return api.Errorf(api.KindInvalid, "the settings of the image have %d bytes, the maximum is %d", b.Len(), most)
	}
	return os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
}

// Read returns the settings of a layer; nil if it has none.
func Read(store *layer.Store, d layer.Digest) (*Settings, error) {
	s := new(struct {
		Settings
		// Merged is the entrypoint and what follows it, as earlier versions stored them.
		Merged []string `json:"command"`
	})
	has, err := read(store, d, fileName, maxFile, s)
	if !has || err != nil {
		return nil, err
	}
	if len(s.Merged) > 0 {
		s.Cmd = s.Merged
	}
	return &s.Settings, nil
}

// read reads a document of a layer, if it has it.
func read(store *layer.Store, d layer.Digest, name string, most int64, to any) (has bool, err error) {
	if !d.Valid() {
		return false, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(d))
	}
	f, err := os.Open(filepath.Join(store.Dir(), string(d), name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, api.Errorf(api.KindInternal, "settings of layer %s: %w", d, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = errors.New("the file is too large")
	}
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return false, api.Errorf(api.KindInternal, "settings of layer %s: %w", d, err)
	}
	return true, nil
}

// The file with the original settings, and its maximum size: more than a configuration that a
// pull accepts can have.
const (
	originalName = "config.json"
	maxOriginal  = 16 << 20
)

// Original is what an image itself says, unchanged, for its export. Sandboxes use [Settings]
// alone. It has the form of an image's configuration.
type Original struct {
	Env          []string            `json:",omitempty"`
	Entrypoint   []string            `json:",omitempty"`
	Cmd          []string            `json:",omitempty"`
	User         string              `json:",omitempty"`
	WorkingDir   string              `json:",omitempty"`
	Labels       map[string]string   `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Volumes      map[string]struct{} `json:",omitempty"`
	StopSignal   string              `json:",omitempty"`
}

// WriteOriginal stores the original settings in the directory of a layer that is being built.
func WriteOriginal(dir string, o Original) error { return write(dir, originalName, maxOriginal, o) }

// ReadOriginal returns the original settings of a layer; nil if it has none, such as one that an
// earlier version made.
func ReadOriginal(store *layer.Store, d layer.Digest) (*Original, error) {
	o := new(Original)
	has, err := read(store, d, originalName, maxOriginal, o)
	if !has || err != nil {
		return nil, err
	}
	return o, nil
}
