package remote

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// record is what the next daemon needs of a machine. It is written before the box is created, without it, and again
// afterwards.
type record struct {
	Box   Box    `json:"box"`
	Token []byte `json:"token"`
	// Spec is what was started, without its environment.
	Spec sandbox.Spec `json:"spec"`
}

const recordName = "record.json"

func (b *Backend) dir(id api.SandboxID) string { return filepath.Join(b.cfg.Dir, string(id)) }

// write stores a record, whole or not at all.
func (b *Backend) write(r record) error {
	dir := b.dir(r.Spec.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return internal(r.Spec.ID, err)
	}
	r.Spec.Env = nil
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, recordName+".new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, recordName+".new"), filepath.Join(dir, recordName))
	}
	return internal(r.Spec.ID, err)
}

// read reads a record: KindNotFound if there is none.
func (b *Backend) read(id api.SandboxID) (r record, err error) {
	text, err := os.ReadFile(filepath.Join(b.dir(id), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, api.Errorf(api.KindNotFound, "nothing is recorded of sandbox %s", id)
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Spec.ID != id {
		err = errors.New("its record is of another sandbox")
	}
	return r, internal(id, err)
}

func internal(id api.SandboxID, err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
}
