package e2b

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestHints(t *testing.T) {
	for hint, want := range map[string]string{
		"Remove --files-only.":                             "Remove keepMemory: false.",
		"resume it first: hortus sandbox resume i4f2a":     "resume it first: Sandbox.connect()",
		"run hortus doctor to see what this host supports": "the operator of this server can run hortus doctor",
		"hortus template ls lists what is here; hortus template create NAME --from-image ./image.tar loads an image": "the operator of this server loads an image",
		"make room: hortus gc":                             "make room: the operator of this server can run hortus gc",
		"For trusted code: --isolation process":            "For trusted code: another isolation, set by the operator of this server",
		"take a snapshot of it: hortus sandbox snapshot i": "take a snapshot of it: createSnapshot()",
		"end it: hortus sandbox kill i4f2a":                "end it: Sandbox.kill()",
		"send the key in X-API-KEY":                        "send the key in X-API-KEY",
	} {
		if got := translateHint(hint); got != want {
			t.Errorf("%q: %q, want %q", hint, got, want)
		}
		e := wireOf(api.Errorf(api.KindUnsupported, "it cannot be").WithHint("%s", hint))
		if !strings.Contains(e.Message, want) {
			t.Errorf("the error says %q", e.Message)
		}
	}
}

// No hint of what this server leads to names a flag or a command of Hortus that a client has
// not got.
func TestHintsOfTheSource(t *testing.T) {
	hints := regexp.MustCompile(`WithHint\(\s*("(?:[^"\\]|\\.)*")`)
	flag := regexp.MustCompile(`--[a-z]|hortus sandbox`)
	seen := 0
	for _, dir := range []string{"sandbox", "backend", "server/access", "storage"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "dockerfile" {
				return fs.SkipDir // this server reads none
			}
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range hints.FindAllStringSubmatch(string(b), -1) {
				seen++
				if hint := strings.ReplaceAll(strings.Trim(m[1], `"`), "%s", "i4f2a"); flag.MatchString(translateHint(hint)) {
					t.Errorf("%s: %q becomes %q", path, hint, translateHint(hint))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 15 {
		t.Errorf("only %d hints", seen)
	}
}

func TestReadLimits(t *testing.T) {
	l := api.Limits{MemoryBytes: 1 << 30, DiskBytes: 1 << 29}
	if err := readLimits(map[string]string{"hortus.memory": "300", "hortus.cpus": "0.5", "a": "b"}, &l); err != nil || l != (api.Limits{MemoryBytes: 300 << 20, DiskBytes: 1 << 29, CPUs: 0.5}) {
		t.Errorf("%+v, %v", l, err)
	}
}
