package catalogue

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
)

func TestRecordMakesANewFileOnly(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("there"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": at("there"), "dangling": at("nowhere")} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"there", "link", "dangling", ".", "no/such/folder"} {
		if r, err := Record(at(name), nil); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	if _, err := Record(at("there"), nil); api.HintOf(err) == "" {
		t.Error("no next step for a file that is there")
	}
	if b, err := os.ReadFile(at("there")); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Lstat(at("nowhere")); err == nil {
		t.Error("a link was followed")
	}

	old := syscall.Umask(0)
	defer syscall.Umask(old)
	r, err := Record(at("new"), map[string]string{"planner": "offline"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(at("new")); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	if m, err := player(at("new")); err != nil || m.Name() != "replay:"+at("new") {
		t.Errorf("%v %v", m, err)
	}
	r, err = Record(at("gone"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(at("gone")); err == nil {
		t.Error("it was not removed")
	}
}

func TestPlayerReadsFilesOnly(t *testing.T) {
	dir := t.TempDir()
	pipe, damaged := filepath.Join(dir, "pipe"), filepath.Join(dir, "damaged")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(damaged, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := hosted(t, nil)
	for _, path := range []string{"relative", "", filepath.Join(dir, "none"), dir, pipe, "/dev/zero", damaged} {
		if _, err := c.Open("replay:" + path); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := c.Open("replay:" + damaged); !strings.Contains(err.Error(), damaged) || api.HintOf(err) == "" {
		t.Error(err)
	}
	if _, err := c.Open("oracle"); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
}

func TestSecretsOfTheEnvironment(t *testing.T) {
	got := keys([]string{"PATH=/bin", "ANTHROPIC_API_KEY=a=b", "openai_api_key= c ", "GITHUB_TOKEN=d", "EMPTY_KEY=", "KEYBOARD=us", "DB_PASSWORD=e", "HORTUS_OPENAI_KEY_SECRET=openai-key", "odd"})
	if want := []string{"a=b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
