package settings

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
	User User              `json:"user"`
	// Dir is the working directory; empty for the workspace.
	Dir string `json:"dir,omitempty"`
	// Command is run if a request has no command.
	Command []string `json:"command,omitempty"`
}

// User is who runs commands.
type User struct {
	Name   string   `json:"name"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	Home   string   `json:"home"`
}

// Write stores settings in the directory of a layer that is being built.
func Write(dir string, s Settings) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(b) > maxFile {
		return api.Errorf(api.KindInvalid, "the settings of the image have %d bytes, the maximum is %d", len(b), maxFile)
	}
	return os.WriteFile(filepath.Join(dir, fileName), b, 0o644)
}

// Read returns the settings of a layer; nil if it has none.
func Read(store *layer.Store, d layer.Digest) (*Settings, error) {
	if !d.Valid() {
		return nil, api.Errorf(api.KindInvalid, "layer digest %q is malformed", string(d))
	}
	f, err := os.Open(filepath.Join(store.Dir(), string(d), fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "settings of layer %s: %w", d, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	s := new(Settings)
	if err == nil && len(b) > maxFile {
		err = errors.New("the file is too large")
	}
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "settings of layer %s: %w", d, err)
	}
	return s, nil
}
