package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api/admin"
	"hortus.dev/test/tier"
)

// toolchainUses are commands that need a toolchain to work as a whole, by the program that proves it.
var toolchainUses = []struct{ program, run, want string }{
	{"cargo", "cd /tmp && cargo new --quiet --vcs none r && cd r && rustc --version && cargo test 2>&1", "test result: ok"},
	{"mvn", "mvn --version", "Apache Maven"},
	{"javac", "cd /tmp && echo 'class A { public static void main(String[] a) { System.out.println(java.time.ZoneId.of(\"Europe/Berlin\")); } }' >A.java && javac A.java && java A", "Europe/Berlin"},
	{"cmake", `mkdir /tmp/c && cd /tmp/c && printf 'cmake_minimum_required(VERSION 3.10)\nproject(x C)\nenable_testing()\nadd_executable(x x.c)\nadd_test(NAME x COMMAND x)\n' >CMakeLists.txt &&
		echo 'int main(void) { return 0; }' >x.c && cmake -B build && cmake --build build && ctest --test-dir build --no-tests=error`, "100% tests passed"},
	{"python3", `python3 -c 'import zoneinfo, datetime; print(datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")))'`, "+02:00"},
	{"go", `mkdir /tmp/g && cd /tmp/g && printf 'package main\nimport "time"\nfunc main() { l, err := time.LoadLocation("Europe/Berlin"); println(l.String(), err == nil) }\n' >m.go && go run m.go 2>&1`, "Europe/Berlin true"},
	{"bash", "TZ=Europe/Berlin date -d 2026-07-01T00:00Z +%Z%H", "CEST02"},
}

// TestToolchains uses the toolchains of this machine, those of its user's home directory too, on both backends that isolate.
func TestToolchains(t *testing.T) {
	tier.Soak(t) // every compiler; TestLanguages has three, and internal/storage/image the toolchains of a home directory
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HOME="+os.Getenv("HOME"), "HORTUS_IDLE=1m")
	has := map[string]bool{}
	for _, tool := range decode[admin.Doctor](t, g.must("doctor", "--json")).Template.Tools {
		has[tool.Name] = tool.Present
	}
	for _, isolation := range []string{"container", "gvisor"} {
		for _, use := range toolchainUses {
			t.Run(isolation+"/"+use.program, func(t *testing.T) {
				if !has[use.program] {
					t.Skipf("this machine has no %s, in /usr or where a version manager keeps it", use.program)
				}
				if _, err := os.Stat("/usr/share/zoneinfo/Europe/Berlin"); err != nil && strings.Contains(use.run, "Berlin") {
					t.Skip("this machine has no data of time zones")
				}
				r := g.patient("sandbox", "run", "--isolation", isolation, "--timeout", "5m", "--", "sh", "-c", use.run)
				if r.code != 0 || !strings.Contains(r.stdout, use.want) {
					t.Errorf("want %q: %s", use.want, r)
				}
			})
		}
	}
}

// TestDoctorOfARepository shows what a repository needs. The control is one that needs nothing that is missing.
func TestDoctorOfARepository(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	make := func(files map[string]string) (dir string) {
		dir = t.TempDir()
		gitIn(t, dir, "init", "-q", ".")
		for name, text := range files {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		gitIn(t, dir, "add", "-A")
		return dir
	}
	needy := make(map[string]string{
		"package.json": `{"scripts":{"test":"node --test"},"engines":{"node":">=999"}}`, ".devcontainer/devcontainer.json": `{"image":"node:999"} // later`,
	})
	r := g.run("doctor", "--repo", needy)
	for _, want := range []string{"gate        node --test (", "no  node", "wanted: >=999 by package.json", "hortus task --image node:999 (from .devcontainer/devcontainer.json)"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing: %s", want, r)
		}
	}
	if r.code != 1 {
		t.Errorf("the exit code: %s", r)
	}
	if r := g.run("doctor", "--repo", needy, "--json"); r.code != 1 || !strings.Contains(r.stdout, `"missing": true`) {
		t.Errorf("as JSON: %s", r)
	}
	if r := g.run("doctor", "--repo", make(map[string]string{"README": "nothing", "test.sh": "true"})); r.code != 0 || !strings.Contains(r.stdout, "none: ") {
		t.Errorf("control: a repository without needs: %s", r)
	}
	if r := g.run("doctor", "--repo", filepath.Join(needy, "none")); r.code != 2 || !strings.Contains(r.stderr, "is no directory") {
		t.Errorf("no directory: %s", r)
	}
}
