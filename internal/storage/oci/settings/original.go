package settings

import "hortus.dev/internal/storage/layer"

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
