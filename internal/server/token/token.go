package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"hortus.dev/api"
	"hortus.dev/internal/platform/secretfile"
)

// Minter makes the tokens of sandboxes and volumes and checks those that callers present.
type Minter struct{ secret []byte }

// Open reads the secret from a file, and creates the file if it does not exist. A file that
// others can read is refused: tokens of a known secret protect nothing.
func Open(file string) (*Minter, error) {
	secret, err := secretfile.Open(file)
	var bad *secretfile.UnusableError
	if errors.As(err, &bad) {
		hint := "remove the file: a new secret is created, and every sandbox gets a new token"
		if bad.Repair != "" {
			hint = bad.Repair + "; if somebody may have read it, " + hint
		}
		return nil, api.Errorf(api.KindDenied, "the secret of tokens is not used: %w", err).WithHint("%s", hint)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the secret of tokens: %w", err)
	}
	return &Minter{secret}, nil
}

// New makes a minter of a secret that several daemons share.
func New(secret []byte) *Minter { return &Minter{secret} }

// Envd returns the token of a sandbox's guest: its commands and files. It has 64 lower-case
// hexadecimal digits and is always the same for an id.
func (m *Minter) Envd(id string) string { return m.make("envd:", id) }

// Traffic returns the token of a sandbox's private ports, in the same form. Neither token can
// be derived from the other.
func (m *Minter) Traffic(id string) string { return m.make("traffic:", id) }

// Volume returns the token of the files of a volume, in the same form. CheckVolume reports whether got is that token,
// in constant time.
func (m *Minter) Volume(id string) string { return m.make("volume:", id) }

// CheckVolume is described at Volume.
func (m *Minter) CheckVolume(id, got string) bool { return same(m.Volume(id), got) }

// Preview returns the proof of a text about a private port, which only this minter makes. CheckPreview checks it in constant time.
func (m *Minter) Preview(text string) string { return m.make("preview:", text) }

// CheckPreview reports whether got is the proof of Preview.
func (m *Minter) CheckPreview(text, got string) bool { return same(m.Preview(text), got) }

// CheckEnvd reports whether got is the token of Envd, in constant time.
func (m *Minter) CheckEnvd(id, got string) bool { return same(m.Envd(id), got) }

// CheckTraffic reports whether got is the token of Traffic, in constant time.
func (m *Minter) CheckTraffic(id, got string) bool { return same(m.Traffic(id), got) }

func (m *Minter) make(purpose, id string) string {
	h := hmac.New(sha256.New, m.secret)
	io.WriteString(h, purpose)
	io.WriteString(h, id)
	return hex.EncodeToString(h.Sum(nil))
}

func same(want, got string) bool { return hmac.Equal([]byte(want), []byte(got)) }
