package secret_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/database"
)

// canary is in every value of the tests, and in no error and no log.
const canary = "canary-value"

// clock is a time that tests move.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time           { return time.Unix(1_800_000_000, c.now.Load()) }
func (c *clock) Advance(by time.Duration) { c.now.Add(int64(by)) }
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// buffer is a log.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

type fixture struct {
	*secret.Secrets
	clock *clock
	log   *buffer
	vars  map[string]string
	rows  *database.DB
}

func newFixture(t *testing.T, change func(*secret.Config)) *fixture {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{clock: &clock{}, log: &buffer{}, vars: map[string]string{}, rows: db}
	cfg := secret.Config{
		Rows: f.rows, Now: f.clock.Now, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		Getenv: func(name string) string { return f.vars[name] },
	}
	if change != nil {
		change(&cfg)
	}
	f.Secrets = secret.New(cfg)
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if strings.Contains(f.log.String(), canary) {
			t.Errorf("a value is in the log: %s", f.log)
		}
	})
	return f
}

func bindings() []secrets.Binding {
	return []secrets.Binding{{Host: "API.example.org.", Paths: []string{"/v1/**"}, In: secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}}}
}

func stored(value string) secrets.Set { return secrets.Set{Value: value, Bindings: bindings()} }

func fromFile(path string) secrets.Set {
	return secrets.Set{Source: secrets.File, From: path, Bindings: bindings()}
}

func fromCommand(args ...string) secrets.Set {
	return secrets.Set{Source: secrets.Command, Command: args, Bindings: bindings()}
}

func shell(script string) secrets.Set { return fromCommand("/bin/sh", "-c", script) }

func (f *fixture) set(t *testing.T, name string, req secrets.Set) secrets.Secret {
	t.Helper()
	row, err := f.Set(t.Context(), "a", name, req)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func (f *fixture) want(t *testing.T, name, value string) {
	t.Helper()
	if got, err := f.Value(t.Context(), "a", name); err != nil || got != value {
		t.Errorf("the value of %s is %q, %v; want %q", name, got, err, value)
	}
}

// fails checks an error, which has no value in it.
func fails(t *testing.T, what string, err error, kind api.Kind, part string) {
	t.Helper()
	if api.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), part) {
		t.Errorf("%s: %v (%s), want %s with %q", what, err, api.KindOf(err), kind, part)
	}
	if strings.Contains(fmt.Sprint(err)+api.HintOf(err), canary) {
		t.Errorf("%s: the error has the value: %v", what, err)
	}
}

func TestStored(t *testing.T) {
	f := newFixture(t, nil)
	row := f.set(t, "token", stored(canary))
	if b := row.Bindings[0]; b.Host != "api.example.org" || b.Port != 443 || b.Scheme != "https" || row.Account != "a" || row.Source != secrets.Stored {
		t.Errorf("%+v", row)
	}
	f.want(t, "token", canary)
	if got, err := f.Lookup(t.Context(), "a", "token"); err != nil || !got.UpdatedAt.Equal(row.UpdatedAt) || got.Bindings[0].Host != "api.example.org" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := f.Lookup(t.Context(), "b", "token")
	fails(t, "another account", err, api.KindNotFound, "unknown secret")
	_, err = f.Value(t.Context(), "b", "token")
	fails(t, "another account", err, api.KindNotFound, "unknown secret")
	_, err = f.Value(t.Context(), "", "token")
	fails(t, "the operator", err, api.KindNotFound, "unknown secret")
	f.set(t, "token", stored(canary+"-2"))
	f.want(t, "token", canary+"-2")
	if rows, next, err := f.Page(t.Context(), "a", api.PageRequest{}); err != nil || len(rows) != 1 || next != "" {
		t.Errorf("%+v, %q, %v", rows, next, err)
	}
	if _, err := f.Remove(t.Context(), "b", "token"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("another account removes it: %v", err)
	}
	if row, err := f.Remove(t.Context(), "a", "token"); err != nil || row.Name != "token" {
		t.Errorf("%+v, %v", row, err)
	}
	_, err = f.Value(t.Context(), "a", "token")
	fails(t, "removed", err, api.KindNotFound, "unknown secret")
	_, err = f.Get(t.Context(), "a", "token")
	fails(t, "removed", err, api.KindNotFound, "unknown secret")
}

func TestSetRefuses(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, "control", stored(canary))
	bad := func(change func(*secrets.Binding)) secrets.Set {
		req := stored(canary)
		change(&req.Bindings[0])
		return req
	}
	for what, c := range map[string]struct {
		name string
		req  secrets.Set
		part string
	}{
		"the name":           {"Token", stored(canary), "not a valid name"},
		"the reserved name":  {"uses", stored(canary), "not a valid name"},
		"no name":            {"", stored(canary), "not a valid name"},
		"a line break":       {"x", stored(canary + "\n"), "line break"},
		"a method":           {"x", bad(func(b *secrets.Binding) { b.Methods = []string{"get"} }), "upper case"},
		"a path":             {"x", bad(func(b *secrets.Binding) { b.Paths = []string{"v1"} }), "does not begin with /"},
		"a path with dots":   {"x", bad(func(b *secrets.Binding) { b.Paths = []string{"/a/../b"} }), "would never match"},
		"a number as a host": {"x", bad(func(b *secrets.Binding) { b.Host = "2130706433" }), "read as an address"},
		"a host in Unicode":  {"x", bad(func(b *secrets.Binding) { b.Host = "bücher.example" }), "ASCII"},
	} {
		_, err := f.Set(t.Context(), "a", c.name, c.req)
		fails(t, what, err, api.KindInvalid, c.part)
	}
	if rows, _, err := f.Page(t.Context(), "a", api.PageRequest{}); err != nil || len(rows) != 1 {
		t.Errorf("%d secrets, %v", len(rows), err)
	}
}

// TestVariable reads the variable at each use.
func TestVariable(t *testing.T) {
	f := newFixture(t, nil)
	req := secrets.Set{Source: secrets.Variable, From: "TOKEN", Bindings: bindings()}
	_, err := f.Set(t.Context(), "a", "token", req)
	fails(t, "no variable", err, api.KindUnavailable, "no environment variable TOKEN")
	for value, part := range map[string]string{canary[:7]: "7 bytes", canary + "\n": "line break", canary + "\x00": "NUL", canary + strings.Repeat("x", secrets.MaxValue): "more than"} {
		f.vars["TOKEN"] = value
		_, err := f.Set(t.Context(), "a", "token", req)
		fails(t, part, err, api.KindInvalid, part)
	}
	f.vars["TOKEN"] = canary
	f.set(t, "token", req)
	f.want(t, "token", canary)
	f.vars["TOKEN"] = canary + "-2"
	f.want(t, "token", canary+"-2")
	f.vars["TOKEN"] = "short"
	_, err = f.Value(t.Context(), "a", "token")
	fails(t, "a short value", err, api.KindInvalid, "5 bytes")
}

func TestFile(t *testing.T) {
	f := newFixture(t, nil)
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for content, want := range map[string]string{
		canary: canary, canary + "\n": canary, canary + "\r\n": canary, " " + canary + " ": " " + canary + " ",
		strings.Repeat("x", secrets.MaxValue) + "\n": strings.Repeat("x", secrets.MaxValue),
	} {
		f.set(t, "token", fromFile(write("token", content)))
		f.want(t, "token", want)
	}
	path := write("token", canary)
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		path, part string
		kind       api.Kind
	}{
		"two line breaks": {write("lines", canary+"\n\n"), "line break", api.KindInvalid},
		"two lines":       {write("lines2", canary+"\n"+canary+"\n"), "line break", api.KindInvalid},
		"a NUL":           {write("nul", canary+"\x00"), "NUL", api.KindInvalid},
		"short":           {write("short", "1234567\n"), "7 bytes", api.KindInvalid},
		"empty":           {write("empty", ""), "0 bytes", api.KindInvalid},
		"long":            {write("long", strings.Repeat("x", secrets.MaxValue+1)), "more than", api.KindInvalid},
		"longer":          {write("longer", strings.Repeat("x", 10*secrets.MaxValue)), "too long", api.KindUnavailable},
		"a link":          {link, "symbolic link", api.KindUnavailable},
		"a pipe":          {pipe, "not a regular file", api.KindUnavailable},
		"a device":        {"/dev/zero", "not a regular file", api.KindUnavailable},
		"a directory":     {dir, "not a regular file", api.KindUnavailable},
		"missing":         {filepath.Join(dir, "missing"), "no such file", api.KindUnavailable},
	} {
		_, err := f.Set(t.Context(), "a", "other", fromFile(c.path))
		fails(t, what, err, c.kind, c.part)
	}
	f.set(t, "token", fromFile(path))
	write("token", canary+"-2")
	f.want(t, "token", canary+"-2")
	// A link that takes the file's place later is not followed.
	if err := os.Rename(link, path); err != nil {
		t.Fatal(err)
	}
	_, err := f.Value(t.Context(), "a", "token")
	fails(t, "a link in its place", err, api.KindUnavailable, "symbolic link")
}

// TestSigner: the JSON of a signer may have several lines in a file.
func TestSigner(t *testing.T) {
	f := newFixture(t, nil)
	path := filepath.Join(t.TempDir(), "aws")
	if err := os.WriteFile(path, []byte("{\n  \"AccessKeyId\": \"AKIDEXAMPLE\",\n  \"SecretAccessKey\": \"canary-value\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := fromFile(path)
	_, err := f.Set(t.Context(), "a", "aws", req)
	fails(t, "without a signer", err, api.KindInvalid, "line break")
	req.Signer = secrets.SigV4
	f.set(t, "aws", req)
	f.want(t, "aws", `{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"canary-value"}`)
}
