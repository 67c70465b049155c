package database

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/platform/secretfile"
	"hortus.dev/internal/store/rowjson"
)

// keySuffix is appended to the name of a SQLite database: the file with the key of sealed values. A
// copy of the database alone does not reveal them.
const keySuffix = "-key"

// sealer encrypts secret values of rows with AES-256-GCM. The row is additional data, so that a
// value cannot be moved to another row.
type sealer struct {
	aead cipher.AEAD
	key  []byte
}

// openSealer reads the key, or creates it if it does not exist. Restore says what to do about a file that is no key.
func openSealer(file, restore string) (*sealer, error) {
	return newSealer(secretfile.Open, file, restore)
}

func newSealer(read func(file string) ([]byte, error), file, restore string) (*sealer, error) {
	key, err := read(file)
	var bad *secretfile.UnusableError
	if errors.As(err, &bad) {
		return nil, api.Errorf(api.KindDenied, "the key of the database's secrets is not used: %w", err).WithHint("%s", cmp.Or(bad.Repair, restore))
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the key of the database's secrets: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead, key}, err
}

// DeriveKey returns a key for values outside of the database, of 32 bytes. It depends on the key of sealed values and on the purpose, and
// is the same for all daemons that have the key.
func (db *DB) DeriveKey(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, db.sealer.key, nil, "hortus "+purpose, 32)
}

// seal encrypts a value for a row.
func (s *sealer) seal(plain []byte, row string) []byte {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	rand.Read(nonce)
	return s.aead.Seal(nonce, nonce, plain, []byte(row))
}

// open decrypts a value. It fails if the key does not fit, and for the value of another row.
func (s *sealer) open(sealed []byte, row string) ([]byte, error) {
	n := s.aead.NonceSize()
	if len(sealed) <= n {
		return nil, errors.New("the sealed value is too short")
	}
	return s.aead.Open(nil, sealed[:n], sealed[n:], []byte(row))
}

// secret encrypts the value of a secret, and openSecret decrypts it. The length separates account
// and name.
func (s *sealer) secret(account, name, value string) []byte {
	return s.seal([]byte(value), secretOf(account, name))
}

func (s *sealer) openSecret(account, name string, sealed []byte) (string, error) {
	plain, err := s.open(sealed, secretOf(account, name))
	return string(plain), err
}

func secretOf(account, name string) string {
	return fmt.Sprintf("secret.value:%d:%s:%s", len(account), account, name)
}

// env encrypts the values of environment variables for the row of a kind and id.
func (s *sealer) env(kind, id string, env map[string]string) ([]byte, error) {
	if len(env) == 0 {
		return nil, nil
	}
	plain, err := rowjson.Marshal(env)
	if err != nil {
		return nil, err
	}
	return s.seal(plain, kind+".env:"+id), nil
}

// openEnv decrypts the values. It returns nil if the key does not fit; the row's list of names
// shows that values are missing.
func (s *sealer) openEnv(kind, id string, sealed []byte) (env map[string]string) {
	if plain, err := s.open(sealed, kind+".env:"+id); err == nil {
		_ = rowjson.Unmarshal(plain, &env)
	}
	return env
}

// sandboxDoc is the document in a sandbox's row. Values of environment variables are sealed, and
// removed with the final state: until then a resume from saved files or a fork may need them.
type sandboxDoc struct {
	api.Sandbox
	SealedEnv []byte `json:"sealedEnv,omitempty"`
}

// sandbox returns the document of a sandbox.
func (s *sealer) sandbox(b api.Sandbox) (doc sandboxDoc, err error) {
	if len(b.EnvNames) == 0 {
		b.EnvNames = slices.Sorted(maps.Keys(b.Env))
	}
	if b.Provision != nil && b.Provision.EnvVars != nil {
		p := *b.Provision
		p.EnvVars = nil // they are the sandbox's
		b.Provision = &p
	}
	doc.Sandbox = b
	if !b.State.Final() {
		doc.SealedEnv, err = s.env("sandbox", string(b.ID), b.Env)
	}
	return doc, err
}

// openSandbox returns the sandbox of a document.
func (s *sealer) openSandbox(doc sandboxDoc) api.Sandbox {
	doc.Env = s.openEnv("sandbox", string(doc.ID), doc.SealedEnv)
	return doc.Sandbox
}

// taskDoc is the document in a task's row. It keeps its sealed values, since a replay needs them.
type taskDoc struct {
	api.Task
	SealedEnv []byte `json:"sealedEnv,omitempty"`
}

// task returns the document of a task. Values in its request are moved to Env.
func (s *sealer) task(t api.Task) (doc taskDoc, err error) {
	t.Attempts = nil // rows of their own
	if len(t.Create.Sandbox.Env) > 0 {
		t.Env, t.Create.Sandbox.Env = t.Create.Sandbox.Env, nil
	}
	if len(t.EnvNames) == 0 {
		t.EnvNames = slices.Sorted(maps.Keys(t.Env))
	}
	doc.Task = t
	doc.SealedEnv, err = s.env("task", string(t.ID), t.Env)
	return doc, err
}

// openTask returns the task of a document.
func (s *sealer) openTask(doc taskDoc) api.Task {
	doc.Env = s.openEnv("task", string(doc.ID), doc.SealedEnv)
	return doc.Task
}
