package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/internal/cli/contexts"
)

const aKey = "e2b_0123456789abcdef0123456789abcdef01234567"

// holder is somebody with a home directory, and a file of contexts in it where text is
// not empty.
type holder struct {
	t    *testing.T
	home string
	file string
}

func newHolder(t *testing.T, text string) *holder {
	t.Helper()
	p := &holder{t: t, home: t.TempDir()}
	p.file = filepath.Join(p.home, ".config", "hortus", "contexts.json")
	if err := os.MkdirAll(filepath.Dir(p.file), 0o755); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run runs a command; no daemon is there.
func (p *holder) run(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	return runIn(p.t, map[string]string{"HOME": p.home, "HORTUS_API_KEY": aKey}, nil, "", nil, args...)
}

func (p *holder) text() string {
	p.t.Helper()
	b, err := os.ReadFile(p.file)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// TestBrokenContextsAreKept: a file that cannot be read stays, byte for byte, whatever
// is tried; what is said names it, and what to do.
func TestBrokenContextsAreKept(t *testing.T) {
	for name, text := range map[string]string{
		"cut":         `{"contexts":{"a":{"host":"http://h","key":"` + aKey,
		"of a future": `{"version":2,"contexts":{"a":{"host":"http://h","key":"` + aKey + `"}}}`,
		"doubled":     `{"contexts":{"a":{"host":"http://h","key":"k"},"a":{"host":"http://g","key":"k"}}}`,
		"too big":     `{"contexts":{}` + strings.Repeat(" ", 1<<20) + `}`,
	} {
		p := newHolder(t, text)
		for _, args := range [][]string{
			{"context", "add", "b", "--host", "https://hortus.example"}, {"context", "use", "local"}, {"context", "use", "a"},
			{"context", "rm", "a"}, {"context", "ls"}, {"sandbox", "ls", "--host", "a"}, {"sandbox", "ls"},
		} {
			code, stdout, stderr := p.run(args...)
			if code == 0 || stdout != "" || !strings.Contains(stderr, p.file) || !strings.Contains(stderr, "\n  next: ") || !strings.Contains(stderr, "mv ") {
				t.Errorf("%s, %q: exit code %d, %q, %q", name, args, code, stdout, stderr)
			}
			if strings.Contains(stderr, aKey) {
				t.Errorf("%s, %q: the key is told: %q", name, args, stderr)
			}
			if p.text() != text {
				t.Fatalf("%s, %q: the file was changed", name, args)
			}
		}
		os.Remove(filepath.Join(filepath.Dir(p.file), ".contexts.lock"))
		if all, err := os.ReadDir(filepath.Dir(p.file)); err != nil || len(all) != 1 {
			t.Errorf("%s: something else was left beside it: %v, %v", name, all, err)
		}
	}
}

// TestContextAddRefuses: nothing is written that would not be read.
func TestContextAddRefuses(t *testing.T) {
	const before = `{"contexts":{"a":{"host":"http://h","key":"k"}}}`
	p := newHolder(t, before)
	for _, host := range []string{"https://me:hunter2@h", "https://h?hunter2", "ftp://h", "h"} {
		code, stdout, stderr := p.run("context", "add", "b", "--host", host)
		if code == 0 || stdout != "" || strings.Contains(stderr, "hunter2") || p.text() != before {
			t.Errorf("%s: exit code %d, %q, %q; the file is %s", host, code, stdout, stderr, p.text())
		}
	}
	err := contexts.Change(t.Context(), p.file, func(full *contexts.File) error {
		clear(full.Contexts)
		for n := range contexts.Max {
			full.Contexts[fmt.Sprint("c", n)] = contexts.Daemon{Host: "http://h", Key: "k"}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := p.text()
	if code, _, stderr := p.run("context", "add", "b", "--host", "https://h"); code == 0 || !strings.Contains(stderr, " is full") || p.text() != whole {
		t.Errorf("one too many: exit code %d, %q", code, stderr)
	}
	// The control: in the place of another there is room.
	if code, _, stderr := p.run("context", "add", "c7", "--host", "https://hortus.example"); code != 0 {
		t.Errorf("in another's place: %q", stderr)
	}
	got, err := contexts.Load(p.file)
	if err != nil || got.Contexts["c7"] != (contexts.Daemon{Host: "https://hortus.example", Key: aKey}) || len(got.Contexts) != contexts.Max {
		t.Errorf("%+v, %v", got.Contexts["c7"], err)
	}
}
