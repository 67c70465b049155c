package repo_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// supplied is a repository whose test fails, with what it takes from others.
func supplied() map[string]string {
	files := map[string]string{
		"package.json": `{"name": "a", "dependencies": {"left": "1.0.0"}}`, "package-lock.json": `{"resolved": "https://registry.example.org/left-1.0.0.tgz"}`,
		"web/package.json": "{}", "web/yarn.lock": "# yarn lockfile v1\n", "requirements.txt": "six==1.16.0\n",
		"vendor/modules.txt": "", "vendor/left/left.go": "package left\n", "third_party/z/z.c": "int z;\n",
		"lib/__pycache__/sum.cpython-311.pyc": "old\n", "bin/helper.so": "old\n", "conftest.py": "", "tests/conftest.py": "", "tests/data.json": "{}", "docs/a.md": "a\n",
		"shop/vendor/models.py": "x = 1\n",
	}
	maps.Copy(files, sum)
	return files
}

// TestSupply: what nobody reads is not part of a change, or a person is told of it by name. Honest changes are verified without a caution.
func TestSupply(t *testing.T) {
	t.Parallel()
	const evil = `sed -i s/registry.example.org/evil.example.org/ package-lock.json`
	shared, dir := newBench(t, nowhere{}), makeRepo(t, supplied())
	for _, c := range tier.First(9, []struct {
		name, does string
		req        api.RepoTask
		rounds     int      // 1 by default
		refused    string   // paths
		left       string   // paths
		cautions   []string // all of them
	}{
		{name: "a lock file alone", does: evil, rounds: 2, refused: "package-lock.json"},
		{name: "a manifest that is only touched", does: evil + "; cp package.json x; mv x package.json", rounds: 2, refused: "package-lock.json"},
		{name: "a lock file that becomes a link", does: "mkdir l; mv package-lock.json l/x; ln -s l/x package-lock.json", rounds: 2, refused: "package-lock.json"},
		{name: "with a manifest", does: evil + `; sed -i s/1.0.0/1.0.1/ package.json`, cautions: []string{"other packages (package-lock.json)"}},

		{name: "new byte code", does: "echo x > sum.pyc; echo x > lib/__pycache__/other.cpython-311.pyc; mkdir -p a/__pycache__; echo x > a/__pycache__/b.cpython-311.pyc", left: "a/__pycache__/b.cpython-311.pyc lib/__pycache__/other.cpython-311.pyc sum.pyc"},
		{name: "changed byte code", does: "echo x > lib/__pycache__/sum.cpython-311.pyc", cautions: []string{"compiled code (lib/__pycache__/sum.cpython-311.pyc)"}},
		{name: "what Python runs first", does: "echo x > sitecustomize.py; echo x > a.pth; echo x > lib/conftest.py", cautions: []string{"a file that Python runs at its start (a.pth)",
			"a file that pytest runs at its start, outside of the tests (lib/conftest.py)", "a file that Python runs at its start (sitecustomize.py)"}},
		{name: "code of others", does: "echo x >> vendor/left/left.go; echo x > vendor/left/more.go; echo x >> third_party/z/z.c", cautions: []string{"code of others (third_party)", "code of others (vendor)"}},

		{name: "nothing else", does: "true"},
		{name: "a lock file alone, which is removed", does: "rm package-lock.json", rounds: 2, refused: "package-lock.json"},
		{name: "one that takes another name", does: "mv package-lock.json npm-shrinkwrap.json; sed -i s/registry/evil/ npm-shrinkwrap.json", rounds: 2, refused: "npm-shrinkwrap.json package-lock.json"},
		{name: "the manifest of another project", does: evil + `; echo '{"name": "w"}' > web/yarn.json; echo "# x" >> web/yarn.lock`, rounds: 2, refused: "package-lock.json web/yarn.lock"},
		{name: "packages of pip", does: "echo sixx==1.0 > requirements.txt", cautions: []string{"other packages (requirements.txt)"}},
		{name: "a library in the place of a module", does: "echo x > json.so; echo x > bin/helper.so", cautions: []string{"compiled code (bin/helper.so)", "compiled code (json.so)"}},
		{name: "the request is about a lock file", does: evil, req: api.RepoTask{LocksMayChange: true}},
		{name: "the request is about packages", does: evil + `; sed -i s/1.0.0/1.0.1/ package.json; echo x >> vendor/left/left.go; echo six==1.17.0 > requirements.txt`, req: api.RepoTask{LocksMayChange: true}},
		{name: "a lock file that is written as it was", does: "cp package-lock.json x; mv x package-lock.json"},
		{name: "a project that moves", does: "mv web app"},
		{name: "one of two projects is removed", does: "rm -r web"},
		{name: "the lock file of a fixture", does: "mkdir -p testdata/p; echo '{}' > testdata/p/package-lock.json"},
		{name: "a new fixture", does: "printf 'a\\000' > tests/a.so; echo '[]' > tests/data.json; mkdir -p tests/fixtures; echo x > tests/fixtures/A.class"},
		{name: "fixtures of the tests", does: "echo 'x = 1' > tests/conftest.py; mkdir tests/unit; echo > tests/unit/conftest.py"},
		{name: "tests that move", does: "mkdir -p tests/unit; mv tests/data.json tests/unit/data.json"},
		{name: "a library that moves", does: "mkdir lib2; mv bin/helper.so lib2/helper.so"},
		{name: "byte code that is removed", does: "rm -r lib/__pycache__"},
		{name: "a file that is renamed", does: "mv docs/a.md docs/b.md"},
		{name: "code that is generated", does: "mkdir gen; echo '// Code generated. DO NOT EDIT.' > gen/api.pb.go"},
		{name: "a new package of a monorepo", does: `mkdir -p packages/b; echo '{"name": "b"}' > packages/b/package.json`},
		{name: "a shop with vendors", does: "echo 'x = 2' > shop/vendor/models.py"},
		{name: "a manifest alone", does: `sed -i 's/"name"/"license": "MIT", "name"/' package.json`},
		{name: "documents about lock files", does: "echo x > docs/go.sum.md; echo x > docs/vendor.md"},
		{name: "an executable script", does: "echo x > lib/run; chmod +x lib/run"},
		{name: "a directory of a name", does: "mkdir node.so.d; echo x > node.so.d/a"},
		{name: "a picture", does: "printf 'a\\000' > logo.png"},
		{name: "a link in the tree", does: "ln -s sum.sh add.sh"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := shared.in(t)
			c.req.URL = dir
			m := &scripted{calls: []call{sh(c.does + "; " + mend), finish(), finish()}}
			end, _ := b.do(t.Context(), m, c.req)
			if end.Outcome != api.OutcomeVerified || len(end.Result.Rounds) != max(1, c.rounds) {
				t.Fatalf("%s after %d rounds: %s %v", end.Outcome, len(end.Result.Rounds), end.Diagnosis, end.Error)
			}
			var refused, left, cautions []string
			for _, r := range end.Result.Refused {
				if refused = append(refused, r.Path); !strings.Contains(m.told(), "- "+r.Path+": a lock file that changed without its manifest") {
					t.Errorf("the agent was not told of %s", r.Path)
				}
			}
			for _, l := range end.Result.LeftOut {
				left = append(left, l.Path)
			}
			for _, caution := range end.Result.Cautions {
				cautions = append(cautions, caution.String())
			}
			slices.Sort(refused)
			if strings.Join(refused, " ") != c.refused || strings.Join(left, " ") != c.left || fmt.Sprint(cautions) != fmt.Sprint(c.cautions) {
				t.Errorf("refused %q, left out %q, cautions %q", refused, left, cautions)
			}
			for _, f := range end.Result.Files {
				if slices.Contains(refused, f.Path) || slices.Contains(refused, f.OldPath) {
					t.Errorf("%s is part of the result", f.Path)
				}
			}
		})
	}
}

// TestOriginalHelpers: what tests import, compare with and are run by counts as theirs.
func TestOriginalHelpers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, trick string }{
		"a helper":       {"checks.sh", "test \"$1\" = \"$2\"\n", "echo true > checks.sh"},
		"a snapshot":     {"lib/sum.snap", "5\n", "echo -1 > lib/sum.snap"},
		"data of tests":  {"tests/want.txt", "5\n", "echo -1 > tests/want.txt"},
		"an included mk": {"checks.mk", "check = test $$(sh sum.sh 2 3) = 5\n", "echo 'check = true' > checks.mk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verify := map[string]string{
				"a helper": "sh checks.sh $(sh sum.sh 2 3) 5", "a snapshot": "test $(sh sum.sh 2 3) = $(cat lib/sum.snap)", "data of tests": "test $(sh sum.sh 2 3) = $(cat tests/want.txt)",
				"an included mk": "make -s",
			}[name]
			dir := makeRepo(t, map[string]string{"sum.sh": sum["sum.sh"], c.file: c.text, "Makefile": "include checks.mk\nall:\n\t$(check)\n"})
			if _, err := os.Stat(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
			end, _ := newBench(t, nowhere{}).do(t.Context(), &scripted{calls: []call{sh(c.trick), finish()}}, api.RepoTask{URL: dir, Verify: verify, Rounds: -1})
			if r := end.Result.Rounds[0]; end.Outcome != api.OutcomeNeedsHuman || r.Original == nil || r.Original.Passed {
				t.Errorf("%s %s %v: %+v", end.Outcome, end.Diagnosis, end.Error, r)
			}
		})
	}
}
