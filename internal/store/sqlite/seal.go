package sqlite

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

// keySuffix names the file with the key of sealed values, beside the database. A copy
// of the database alone does not tell them.
const keySuffix = "-key"

const sealKeyLen = 32

// sealer encrypts what must not stand in a row in clear: AES-256-GCM, with the row's
// id as additional data, so that a value cannot be moved to another row.
type sealer struct{ aead cipher.AEAD }

// openSealer reads the key, and makes one if there is none.
func openSealer(path string) (*sealer, error) {
	file := path + keySuffix
	key, err := readSealKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createSealKey(file); err == nil {
			key, err = readSealKey(file)
		}
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the key of the database's sealed values, %s: %w", file, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead}, err
}

func readSealKey(file string) ([]byte, error) {
	st, err := os.Lstat(file)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 || st.Size() != sealKeyLen:
		return nil, errors.New("it is not a plain file of 32 bytes that its owner alone can read; restore it, or remove it: environment values of sandboxes are then lost")
	}
	return os.ReadFile(file)
}

// createSealKey writes a key, whole or not at all, and keeps one that is there.
func createSealKey(file string) error {
	key := make([]byte, sealKeyLen)
	rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// sandboxDoc is a sandbox as its row has it. Values of environment variables are in it
// sealed, and only as long as something may need them: a sandbox that goes on from
// saved files, or a fork.
type sandboxDoc struct {
	api.Sandbox
	SealedEnv []byte `json:"sealedEnv,omitempty"`
	// ClearEnv is what builds before sealing wrote.
	ClearEnv map[string]string `json:"env,omitempty"`
}

// sealed gives a sandbox's row.
func (s *sealer) sealed(b api.Sandbox) (doc sandboxDoc, err error) {
	doc.Sandbox = withoutValues(b)
	if len(b.Env) == 0 || b.State.Final() {
		return doc, nil
	}
	plain, err := rowjson.Marshal(b.Env)
	if err != nil {
		return doc, err
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	rand.Read(nonce)
	doc.SealedEnv = s.aead.Seal(nonce, nonce, plain, []byte("sandbox.env:"+b.ID))
	return doc, nil
}

// withoutValues names a sandbox's variables.
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

// opened gives the sandbox of a row. Values that the key does not open stay away; whoever
// needs them sees from the names that they are missing.
func (s *sealer) opened(doc sandboxDoc, id api.SandboxID) api.Sandbox {
	b := doc.Sandbox
	b.Env = doc.ClearEnv
	if n := s.aead.NonceSize(); len(doc.SealedEnv) > n {
		plain, err := s.aead.Open(nil, doc.SealedEnv[:n], doc.SealedEnv[n:], []byte("sandbox.env:"+id))
		if err == nil {
			_ = rowjson.Unmarshal(plain, &b.Env)
		}
	}
	return withoutValues(b)
}

// sealedVersion is the user_version of a database without values in clear.
const sealedVersion = 1

// sealOld seals the values of rows that an older build wrote in clear, once.
func (db *DB) sealOld(ctx context.Context, log *slog.Logger) error {
	var version int
	if err := db.read.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil || version >= sealedVersion {
		return err
	}
	rows, err := list(ctx, db.read, "sandboxes", db.scanSandbox, `SELECT `+sandboxColumns+` FROM sandbox
		WHERE json_type(doc, '$.env') IS NOT NULL OR json_type(doc, '$.provision.envVars') IS NOT NULL`)
	if err != nil {
		return err
	}
	err = db.inTx(ctx, "old environment values", func(tx *sql.Tx) error {
		for _, b := range rows {
			doc, err := db.sealer.sealed(b)
			if err != nil {
				return err
			}
			text, err := rowjson.Marshal(doc)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE sandbox SET doc = ?2 WHERE id = ?1`, string(b.ID), string(text)); err != nil {
				return failed(ctx, err, "seal the environment of sandbox %s", b.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		log.Info("environment values of sandboxes were sealed", "rows", len(rows))
		// What was replaced is still on free pages of the file.
		if _, err := db.write.ExecContext(ctx, `VACUUM`); err != nil {
			return failed(ctx, err, "remove environment values from the database's free pages")
		}
	}
	if _, err := db.write.ExecContext(ctx, `PRAGMA user_version = 1`); err != nil {
		return failed(ctx, err, "mark the database")
	}
	return nil
}
