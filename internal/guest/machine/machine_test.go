//go:build linux

package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// Ids have the correct format, depend only on the seed, and are independent of each other.
func TestIDsOfASelf(t *testing.T) {
	a, b := []byte("0123456789abcdef"), []byte("0123456789abcdeg")
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if id := bootID(a); !uuid.MatchString(id) || id != bootID(a) || id == bootID(b) {
		t.Errorf("boot ids %s and %s", id, bootID(b))
	}
	if id := derivedID("machine-id", a); len(id) != 32 || id == derivedID("machine-id", b) || id[:8] == bootID(a)[:8] || id == derivedID("generation", a) {
		t.Errorf("machine ids %s and %s, boot id %s", id, derivedID("machine-id", b), bootID(a))
	}
}

func TestReplaceHost(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"127.0.1.1 one\n":              "127.0.1.1 two\n",
		"127.0.1.1\tone one.lan x\r\n": "127.0.1.1\ttwo one.lan x\r\n",
		"1.1.1.1 none # one\n":         "1.1.1.1 none # one\n",
		"#one\none":                    "#one\ntwo",
	} {
		if got := string(replaceHost([]byte(in), "one", "two")); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
	if a, b := derivedID("machine-id", []byte("a")), derivedID("machine-id", []byte("b")); a == b || len(a) != 32 {
		t.Errorf("%q %q", a, b)
	}
}

// An owner's directory belongs to the owner and its parents to root. A file replaces
// what is at its path.
func TestPrepareOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it needs root")
	}
	dir := t.TempDir()
	aside := filepath.Join(dir, "aside")
	if err := os.WriteFile(aside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(aside, filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	cfg := &birth.Config{
		Own:   []birth.Dir{{Path: dir + "/a/b/c", Mode: 0o1770, UID: 1000, GID: 1001}},
		Files: []birth.File{{Path: dir + "/file", Data: "x"}, {Path: dir + "/d/file", Data: "y"}},
	}
	for range 2 {
		if err := Prepare(cfg); err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/a/b/c", &st); err != nil || st.Uid != 1000 || st.Gid != 1001 || st.Mode&0o7777 != 0o1770 {
		t.Errorf("%+v %v", st, err)
	}
	if err := unix.Stat(dir+"/a", &st); err != nil || st.Uid != 0 || st.Mode&0o777 != 0o755 {
		t.Errorf("%+v %v", st, err)
	}
	for path, want := range map[string]string{"file": "x", "d/file": "y", "aside": "mine"} {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", path, got, err)
		}
	}
	for _, bad := range []*birth.Config{
		{Own: []birth.Dir{{Path: "a"}}}, {Files: []birth.File{{Path: "a"}}}, {Own: []birth.Dir{{Path: dir + "/file"}}}, {Files: []birth.File{{Path: dir + "/a"}}},
	} {
		if err := Prepare(bad); err == nil {
			t.Errorf("%+v was made", bad)
		}
	}
}
