package token

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
)

func open(t *testing.T, file string) *Minter {
	t.Helper()
	m, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A token is what the design says it is, so that another implementation can make
// the same.
func TestForm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	secret := bytes.Repeat([]byte{7}, 32)
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	m := open(t, file)
	id := string(api.NewSandboxID())
	for purpose, got := range map[string]string{"envd:": m.Envd(id), "traffic:": m.Traffic(id)} {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(purpose + id))
		if want := hex.EncodeToString(h.Sum(nil)); got != want {
			t.Errorf("%s%s: %s, want %s", purpose, id, got, want)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9]+$`).MatchString(got) {
			t.Errorf("%q has other characters than letters and digits", got)
		}
	}
}

func TestStableAcrossOpens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	id := string(api.NewSandboxID())
	first := open(t, file)
	again := open(t, file)
	if first.Envd(id) != again.Envd(id) || first.Traffic(id) != again.Traffic(id) {
		t.Error("a second daemon makes other tokens")
	}
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o600 || st.Size() != 32 {
		t.Errorf("mode %v, %d bytes", st.Mode(), st.Size())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".secret-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if other := open(t, filepath.Join(t.TempDir(), "secret")); other.Envd(id) == first.Envd(id) {
		t.Error("two data directories make the same token")
	}
}

func TestOpenAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	got := make([]string, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			m, err := Open(file)
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = m.Envd("i")
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatalf("different secrets from one file: %v", got)
		}
	}
}

func TestCheck(t *testing.T) {
	m := open(t, filepath.Join(t.TempDir(), "secret"))
	id, other := string(api.NewSandboxID()), string(api.NewSandboxID())
	good := m.Envd(id)
	last := byte('0')
	if good[len(good)-1] == '0' {
		last = '1'
	}
	tests := []struct {
		name, got string
		want      bool
	}{
		{"its own", good, true},
		{"none", "", false},
		{"another sandbox's", m.Envd(other), false},
		{"of another purpose", m.Traffic(id), false},
		{"cut", good[:len(good)-1], false},
		{"longer", good + "0", false},
		{"last digit wrong", good[:len(good)-1] + string(last), false},
		{"upper case", strings.ToUpper(good), strings.ToUpper(good) == good},
	}
	for _, tt := range tests {
		if got := m.CheckEnvd(id, tt.got); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if !m.CheckTraffic(id, m.Traffic(id)) || m.CheckTraffic(id, good) {
		t.Error("the traffic token is confused with the envd token")
	}
}

// A secret that others may know, or that is none, is refused instead of used.
func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		make func(file string) error
	}{
		{"readable by others", func(f string) error {
			if err := os.WriteFile(f, make([]byte, 32), 0o600); err != nil {
				return err
			}
			return os.Chmod(f, 0o644)
		}},
		{"short", func(f string) error { return os.WriteFile(f, make([]byte, 31), 0o600) }},
		{"empty", func(f string) error { return os.WriteFile(f, nil, 0o600) }},
		{"long", func(f string) error { return os.WriteFile(f, make([]byte, 33), 0o600) }},
		{"a link", func(f string) error { return os.Symlink("/dev/zero", f) }},
		{"a link to nothing", func(f string) error { return os.Symlink(f+"-nowhere", f) }},
		{"a directory", func(f string) error { return os.Mkdir(f, 0o700) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			if err := tt.make(file); err != nil {
				t.Fatal(err)
			}
			m, err := Open(file)
			if err == nil || m != nil {
				t.Fatal("it was used")
			}
			if api.KindOf(err) != api.KindDenied || api.HintOf(err) == "" {
				t.Errorf("kind %s, hint %q: %v", api.KindOf(err), api.HintOf(err), err)
			}
		})
	}
}
