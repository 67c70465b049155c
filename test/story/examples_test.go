package story

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/test/tier"
)

// examples are what each example prints.
var examples = map[string]string{
	"sentence.sh": "verified: 2, 3, 5, 7, 11, 13, 17, 19, 23, 29\nprogram: main.py\n",
	"pipe.sh":     "grace 9\nada 7\nalan 5\ntotal 21\n",
	"batch.sh": "verified: print the first 5 prime numbers\nverified: Run this Python: print(6 * 7)\n" +
		"declined: Fold a protein in seven dimensions and sell it\n2 of 3 verified\n",
	"files.sh":  "THE QUICK BROWN FOX\nJUMPS OVER THE LAZY DOG\nwords: 9\n",
	"limits.sh": "memory: 137\ntime: 124\nits own code: 7\nno such command: 127\nnetwork: 1\n",
	"npm.sh":    "is-number is-odd \npass 2\nENOTFOUND\n\"host\":\"example.org\"\n",
	"sdk":       "sorted: apple fig pear\nexit code: 3\nprocesses left: 0\noutcome: verified\n2, 3, 5, 7, 11\n",
}

// TestExamples runs every example with the real binary.
func TestExamples(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	dir, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if !slices.Contains([]string{"README.md", "tasks", "frameworks"}, e.Name()) { // see TestExampleTasks and test/frameworks
			names = append(names, e.Name())
		}
	}
	if len(names) != len(examples) {
		t.Errorf("there are %q, and %d are known here", names, len(examples))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if name == "npm.sh" {
				tier.Soak(t) // a registry's packages; TestInstall has a registry
			}
			g := newGarden(t)
			if name == "npm.sh" {
				needsRegistry(t)
			} else {
				g.light()
			}
			if name != "sdk" {
				if r := g.outside("sh", filepath.Join(dir, name)); r.code != 0 || r.stdout != examples[name] {
					t.Errorf("want\n%s\ngot %s", examples[name], r)
				}
				return
			}
			g.env = append(slices.Clone(g.env), "HORTUS_IDLE=1m")
			g.must("task", "ls") // a daemon that stays for a while
			if r := g.outside(sdkExample(t), filepath.Join(g.dir, "hortus.sock")); r.code != 0 || r.stdout != examples[name] {
				t.Errorf("want\n%s\ngot %s", examples[name], r)
			}
		})
	}
}

// sdkExample returns the compiled example, which continuous integration builds
// beforehand for a user who has no compiler's cache.
func sdkExample(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("HORTUS_EXAMPLE_SDK"); path != "" {
		return path
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no Go compiler on this machine")
	}
	path := filepath.Join(t.TempDir(), "sdk")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "hortus.dev/examples/sdk")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// needsRegistry skips a test on a machine that does not reach its npm registry.
func needsRegistry(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "view", "is-odd@3.0.1", "version")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the npm registry cannot be reached from this machine: %v: %.200s", err, out)
	}
}
