package version

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

func TestDescribe(t *testing.T) {
	v := Describe()
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(v.Build) || v.OS != runtime.GOOS || v.Arch != runtime.GOARCH || v.Version == "" {
		t.Errorf("%+v", v)
	}
}

func TestContentID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := contentID(path); got != "2d711642b726" {
		t.Errorf("%s", got)
	}
	if got := contentID(path + "none"); got != "unknown" {
		t.Errorf("%s", got)
	}
}
