package attack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/backend/wasm"
	"hortus.dev/test/tier"
)

// withoutPrograms are the attacks that are made on wasm too. A sandbox there has no programs of a root file
// system: what they do elsewhere by a shell or by this test binary they do by JavaScript, or by a client. What
// a module can do besides is in the tests of internal/backend/wasm. The value is true if CI makes the attack;
// the others are in the soak tier.
var withoutPrograms = map[string]bool{
	"TestNamesOfFiles": true, "TestLinks": true, "TestNamesInCommands": false, "TestDeepTree": false, "TestSecrets": false,
}

// needsPrograms skips an attack on wasm that needs programs.
func needsPrograms(t *testing.T, isolation string) {
	t.Helper()
	if isolation != "wasm" {
		return
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	if inCI, ok := withoutPrograms[top]; ok {
		if !inCI {
			tier.Soak(t)
		}
		return
	}
	b, err := wasm.New(wasm.Config{Dir: t.TempDir(), Modules: modulesDir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if a, ok := b.Probe(t.Context()).Has(api.CapPrograms); !ok {
		t.Skipf("%s lacks %s, by which this attack is made: %s", isolation, a.Capability, a.Reason)
	}
}

// script runs JavaScript in a sandbox of wasm, and returns what it prints.
func (w *world) script(t *testing.T, id api.SandboxID, script string, args ...string) string {
	t.Helper()
	const path = "/tmp/script.js"
	if err := w.guest(t, id).WriteFile(within(t), "", path, strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	r := w.exec(t, id, "", append([]string{"qjs", "--std", path}, args...)...)
	if r.exec.Exit.Code != 0 {
		t.Fatalf("%.200q: %+v\n%s", script, r.exec.Exit, r.stderr)
	}
	return r.stdout
}

// values decodes lines of JSON.
func values(t *testing.T, lines string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(lines) {
		var s string
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%.200q: %v", line, err)
		}
		out = append(out, s)
	}
	return out
}

// namesByScript wants a script to see the names of a directory. It sees those that are not UTF-8 as others,
// so of them it wants their number.
func (w *world) namesByScript(t *testing.T, id api.SandboxID, dir string, want []string) {
	t.Helper()
	got := values(t, w.script(t, id, fmt.Sprintf(`for (const n of os.readdir(%q)[0]) print(JSON.stringify(n))`, dir)))
	if len(got) != len(want)+2 { // "." and ".."
		t.Errorf("a script sees %d names, want %d", len(got), len(want)+2)
	}
	for _, name := range want {
		if utf8.ValidString(name) && !slices.Contains(got, name) {
			t.Errorf("a script does not see %q", name)
		}
	}
}

// deepByClient makes directories, each in the last, with paths that a client can say: it moves what it has
// below what is new.
func (w *world) deepByClient(t *testing.T, id api.SandboxID, depth int) {
	t.Helper()
	c := w.guest(t, id)
	const step = 1000
	long := strings.Repeat("/d", step)
	for made := 0; made < depth; made += step {
		if _, err := c.MakeDir(within(t), "", "/workspace/new"+long); err != nil {
			t.Fatal(err)
		}
		if made > 0 {
			if _, err := c.Move(within(t), "", "/workspace/d", "/workspace/new"+long+"/d"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Move(within(t), "", "/workspace/new/d", "/workspace/d"); err != nil {
			t.Fatal(err)
		}
		if err := c.Remove(within(t), "", "/workspace/new"); err != nil {
			t.Fatal(err)
		}
	}
}

// walkByScript wants a script to find none of the markers in its files, their names and its environment. The
// control is one that the sandbox has.
func (w *world) walkByScript(t *testing.T, id api.SandboxID, places, markers []string) {
	t.Helper()
	const walk = `
function look(p, depth) {
	print(p);
	const [names, failed] = os.readdir(p);
	if (failed) { print(std.loadFile(p)); return; }
	if (depth < 12) for (const n of names) if (n != "." && n != "..") look((p == "/" ? "" : p) + "/" + n, depth + 1);
}
for (const p of scriptArgs.slice(1)) look(p, 0);
for (const [k, v] of Object.entries(std.getenviron())) print(k + "=" + v);`
	own := newMarker("own")
	if err := w.guest(t, id).WriteFile(within(t), "", "/home/user/own", strings.NewReader(own)); err != nil {
		t.Fatal(err)
	}
	out := w.script(t, id, walk, places...)
	for _, m := range markers {
		if strings.Contains(out, m) {
			t.Errorf("a script finds %s", m)
		}
	}
	if !strings.Contains(out, own) || !strings.Contains(out, "PWD=") {
		t.Errorf("control: the walk finds neither its own file nor its environment: %.2000q", out)
	}
}
