package repair

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/tier"
)

// viewed is the shell sh in a mount namespace that has a read-only mount of the directory at view.
func viewed(sh, view string) func(t testing.TB, dir, command string, env map[string]string, limit time.Duration) string {
	return func(t testing.TB, dir, command string, env map[string]string, limit time.Duration) string {
		inner := "mount --bind " + shellWord(dir) + " " + shellWord(view) + " && mount -o remount,bind,ro " + shellWord(view) + " && exec " + sh + " -c " + shellWord(command)
		return shellTool(t, dir, "exec unshare -rm bash -c "+shellWord(inner), env, limit)
	}
}

// needNamespaces skips where no user namespace with a mount can be made.
func needNamespaces(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "none", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("no mount in a user namespace on this host: %v, %s", err, out)
	}
}

// install writes so many packages of 10 files each into a directory, and one of the scope @s.
func install(t testing.TB, dir string, packages int) {
	t.Helper()
	for i := range packages {
		name := fmt.Sprintf("p%d", i)
		if i == 1 {
			name = "@s/p1"
		}
		pkg := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(pkg, "lib"), 0o755); err != nil {
			t.Fatal(err)
		}
		for f := range 10 {
			file := fmt.Sprintf("lib/f%d.js", f)
			text := fmt.Sprintf("// %s\n", strings.Repeat("x", 10<<10))
			switch f {
			case 0:
				file, text = "package.json", fmt.Sprintf(`{"name": %q, "version": "1.0.0", "main": "index.js"}`, name)
			case 1:
				file, text = "index.js", fmt.Sprintf("exports.number = %d;\n", i)
			}
			if err := os.WriteFile(filepath.Join(pkg, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fingerprint is every name, mode, size and time of change below a directory.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %v %d %v\n", p, fi.Mode(), fi.Size(), fi.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// attackInstalled is a part of a gate. In a trial, or if ATTACK is set, it changes what is installed,
// by every name that it has there; in the tree itself, where the gate runs too, it does not.
const attackInstalled = `if [ -n "$ATTACK" ] || [ "$(pwd -P)" != "$TREE" ]; then
	( cd -P node_modules/p0 && echo 'exports.number = 0;' > index.js; rm -f package.json )
	echo '// evil' >> node_modules/@s/p1/index.js
	chmod 777 node_modules/p2/index.js
	rm -rf node_modules/p3/lib; rm -rf node_modules/p4
	mv node_modules/p5 node_modules/p6/; ln -f node_modules/p7/index.js node_modules/p8/alias
	mkdir node_modules/p9/new node_modules/new; mkdir -p node_modules/.cache; echo c > node_modules/.cache/c
	echo evil > node_modules/.bin/tool; echo evil > node_modules/.package-lock.json
	echo "$(readlink node_modules/p2) $(cat node_modules/w/index.js | tr -d '\n')" >> "$SEEN"
fi 2>/dev/null
`

// installedFiles is a repository whose programs use installed packages and one of its own
// packages, w, through a link.
func installedFiles(t *testing.T, dir string, packages int) {
	t.Helper()
	repository{files: map[string]string{
		".gitignore":           "node_modules\n",
		"gate.sh":              attackInstalled + "node test.js\n",
		"test.js":              "const w = require('w');\nif (w.last([1, 2, 3]) !== 3) { console.error('not ok 1'); process.exit(1); }\nconsole.log('1 passed');\n",
		"packages/w/index.js":  "const { number } = require('p0');\nconst { number: one } = require('@s/p1');\nexports.last = (list) => list[list.length - one - number - 1];\n",
		"packages/w/README.md": "w\n",
	}}.plant(t, dir, mutant{})
	modules := filepath.Join(dir, "node_modules")
	install(t, modules, packages)
	for _, err := range []error{
		os.Symlink("../packages/w", filepath.Join(modules, "w")), os.Mkdir(filepath.Join(modules, ".bin"), 0o755),
		os.Symlink("../p0/index.js", filepath.Join(modules, ".bin", "p0")), os.WriteFile(filepath.Join(modules, ".bin", "tool"), nil, 0o755),
		os.WriteFile(filepath.Join(modules, ".package-lock.json"), []byte("{}\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTrialsWithInstalledFiles repairs a program whose installed files are linked in the copies,
// or copied where there is no read-only mount of them. Each trial tries to change those files.
func TestTrialsWithInstalledFiles(t *testing.T) {
	t.Parallel()
	needLanguage(t, "javascript")
	if viewDir != birth.ViewDir {
		t.Errorf("the read-only mount is at %s, not at %s", birth.ViewDir, viewDir)
	}
	for name, c := range map[string]struct {
		packages int
		view     bool
		linked   bool
		sh       string
	}{"many": {250, true, true, "bash"}, "many with sh": {250, true, true, "sh"}, "few": {20, true, false, "bash"}, "many without a mount": {250, false, false, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.sh == "sh" {
				tier.Soak(t) // as "many", with another shell
			}
			if c.view {
				needNamespaces(t)
			}
			dir, view := t.TempDir(), t.TempDir()
			installedFiles(t, dir, c.packages)
			seen := filepath.Join(t.TempDir(), "seen")
			gate := "TREE=" + shellWord(dir) + " SEEN=" + shellWord(seen) + " sh gate.sh"
			m := New()
			m.workspace, m.view = dir, view
			shell := shellTool
			if c.view {
				shell = viewed(c.sh, view)
			}
			modules := filepath.Join(dir, "node_modules")
			before := fingerprint(t, modules)
			// The gate's word for the tree is replaced in copies by theirs: TREE is built from two.
			half := len(dir) / 2
			gate = strings.Replace(gate, shellWord(dir), shellWord(dir[:half])+shellWord(dir[half:]), 1)
			w, err := driveIn(t, m, dir, briefOf("Fix the failing test", gate), shell)
			if err != nil || w.blocked != "" {
				t.Fatalf("%v, %s %s\n%s", err, w.summary, w.blocked, w.trials())
			}
			if fingerprint(t, modules) != before {
				t.Error("a trial changed what is installed")
			}
			b, err := os.ReadFile(seen)
			if err != nil {
				t.Fatal(err)
			}
			links := strings.Count(string(b), view+"/node_modules/p2 ")
			if lines := strings.Count(string(b), "\n"); lines < 2 || c.linked && links != lines || !c.linked && links != 0 {
				t.Errorf("%d of %d trials had links:\n%s", links, lines, b)
			}
			if got := changed(t, dir); got != " M packages/w/index.js\n" {
				t.Errorf("it changed\n%s", got)
			}
			// The control: what the trials did changes files that they can write.
			shellTool(t, dir, "ATTACK=1 "+gate, nil, 0)
			if fingerprint(t, modules) == before {
				t.Error("the control failed: what the trials do changes nothing")
			}
		})
	}
}
