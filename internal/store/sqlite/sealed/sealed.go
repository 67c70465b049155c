package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/platform/secretfile"
	"hortus.dev/internal/store/rowjson"
)

// KeySuffix is appended to the name of the database: the file with the key of sealed
// values. A copy of the database alone does not reveal them.
const KeySuffix = "-key"

// Sealer encrypts secret values of rows with AES-256-GCM. The row's id is additional
// data, so that a value cannot be moved to another row.
type Sealer struct{ aead cipher.AEAD }

// Open reads the key, or creates it if it does not exist.
func Open(path string) (*Sealer, error) {
	file := path + KeySuffix
	key, err := secretfile.Open(file)
	if errors.Is(err, secretfile.ErrUnusable) {
		err = fmt.Errorf("%w; restore it, or remove it: environment values of sandboxes and tasks and stored secrets are then lost", err)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the key of the database's sealed values, %s: %w", file, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Sealer{aead}, err
}

// env encrypts the values of environment variables for the row of a kind and id.
func (s *Sealer) env(kind, id string, env map[string]string) ([]byte, error) {
	if len(env) == 0 {
		return nil, nil
	}
	plain, err := rowjson.Marshal(env)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	rand.Read(nonce)
	return s.aead.Seal(nonce, nonce, plain, envOf(kind, id)), nil
}

// openEnv decrypts the values. It returns nil if the key does not fit; the row's list of
// names shows that values are missing.
func (s *Sealer) openEnv(kind, id string, sealed []byte) (env map[string]string) {
	n := s.aead.NonceSize()
	if len(sealed) <= n {
		return nil
	}
	if plain, err := s.aead.Open(nil, sealed[:n], sealed[n:], envOf(kind, id)); err == nil {
		_ = rowjson.Unmarshal(plain, &env)
	}
	return env
}

func envOf(kind, id string) []byte { return []byte(kind + ".env:" + id) }

// SandboxDoc is the document in a sandbox's row. Values of environment variables are
// sealed, and removed with the final state: until then a resume from saved files or a
// fork may need them.
type SandboxDoc struct {
	api.Sandbox
	SealedEnv []byte `json:"sealedEnv,omitempty"`
	// ClearEnv was written by builds without sealing.
	ClearEnv map[string]string `json:"env,omitempty"`
}

// Sandbox returns the document of a sandbox.
func (s *Sealer) Sandbox(b api.Sandbox) (doc SandboxDoc, err error) {
	doc.Sandbox = withoutValues(b)
	if !b.State.Final() {
		doc.SealedEnv, err = s.env("sandbox", string(b.ID), b.Env)
	}
	return doc, err
}

// withoutValues sets EnvNames and removes the values from the provision request.
func withoutValues(b api.Sandbox) api.Sandbox {
	if len(b.EnvNames) == 0 && len(b.Env) > 0 {
		b.EnvNames = slices.Sorted(maps.Keys(b.Env))
	}
	if b.Provision != nil && b.Provision.EnvVars != nil {
		p := *b.Provision
		p.EnvVars = nil // they are the sandbox's
		b.Provision = &p
	}
	return b
}

// OpenSandbox returns the sandbox of a document.
func (s *Sealer) OpenSandbox(doc SandboxDoc) api.Sandbox {
	b := doc.Sandbox
	b.Env = doc.ClearEnv
	if env := s.openEnv("sandbox", string(doc.ID), doc.SealedEnv); env != nil {
		b.Env = env
	}
	return withoutValues(b)
}

// TaskDoc is the document in a task's row. It keeps its sealed values, since a replay
// needs them.
type TaskDoc struct {
	api.Task
	SealedEnv []byte `json:"sealedEnv,omitempty"`
}

// Task returns the document of a task.
func (s *Sealer) Task(t api.Task) (doc TaskDoc, err error) {
	t.Attempts = nil // rows of their own
	doc.Task = taskWithoutValues(t)
	doc.SealedEnv, err = s.env("task", string(t.ID), t.Env)
	return doc, err
}

// taskWithoutValues moves the values from the request, where builds without sealing left
// them, to Env, which is never shown.
func taskWithoutValues(t api.Task) api.Task {
	if len(t.Create.Sandbox.Env) > 0 {
		t.Env, t.Create.Sandbox.Env = t.Create.Sandbox.Env, nil
	}
	if len(t.EnvNames) == 0 {
		t.EnvNames = slices.Sorted(maps.Keys(t.Env))
	}
	return t
}

// OpenTask returns the task of a document.
func (s *Sealer) OpenTask(doc TaskDoc) api.Task {
	t := doc.Task
	t.Env = s.openEnv("task", string(doc.ID), doc.SealedEnv)
	return taskWithoutValues(t)
}
