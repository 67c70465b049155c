package story

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/tier"
)

// recipe is a repository whose setup is one command.
func recipe(run string, more ...string) map[string]string {
	return map[string]string{
		".hortus/setup.yaml": "egress: []\nsteps:\n  - name: make\n    run: |\n      " + strings.ReplaceAll(run, "\n", "\n      ") + "\n" + strings.Join(more, ""),
		".gitignore":         "deps\n",
		"check.sh":           "cat deps/made\n",
	}
}

// prepare prepares repositories, and wants each text in what is said.
func (g *garden) prepare(args []string, want ...string) result {
	g.t.Helper()
	run := g.patient(append([]string{"repo", "prepare"}, args...)...)
	for _, w := range want {
		if run.code != 0 || !strings.Contains(run.stdout+run.stderr, w) {
			g.t.Errorf("%q is missing: %s", w, run)
		}
	}
	return run
}

// gate runs the gate of a repository once, without a model.
func (g *garden) gate(dir, verify string, flags ...string) result {
	g.t.Helper()
	return g.patient(append([]string{"task", "--repo", dir, "--author", "Ada <ada@example.org>", "--rounds", "0", "--steps", "1", "--model", "offline", "--verify", verify, "Fix the failing test"}, flags...)...)
}

const before = "[gate] before any change: "

// TestSetupSideBySide prepares five repositories with one command, one of which fails.
func TestSetupSideBySide(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	var dirs []string
	for i := range 5 {
		dirs = append(dirs, makeRepo(t, g, recipe(fmt.Sprintf("mkdir deps; echo %d >deps/made", i))))
	}
	g.prepare(dirs, "5 of 5 repositories prepared", "prepared "+filepath.Base(dirs[0])+" ", "prepared "+filepath.Base(dirs[4])+" ", "["+filepath.Base(dirs[3])+"] [setup] make in")
	if run := g.prepare(dirs, "5 of 5 repositories prepared"); strings.Count(run.stderr, "[setup] reused: make") != 5 {
		t.Errorf("not all are reused: %s", run)
	}
	if run := g.gate(dirs[2], "grep -qx 2 deps/made"); !strings.Contains(run.stderr, before+"passed") {
		t.Errorf("the gate does not have its repository's own files: %s", run)
	}
	if got := decode[[]api.Task](t, g.must("repo", "prepare", "--json", dirs[0], dirs[1])); len(got) != 2 || got[0].Outcome != api.OutcomeVerified {
		t.Errorf("%+v", got)
	}
	broken := makeRepo(t, g, recipe("echo it broke; exit 3"))
	if run := g.prepare([]string{dirs[0], broken}); run.code == 0 || !strings.Contains(run.stderr, "it broke") || !strings.Contains(run.stderr, "1 of 2 repositories prepared") {
		t.Errorf("one that fails: %s", run)
	}
}

// TestSetupServices: the services of a recipe run beside the warm-up, the check and the gate, and end with them.
func TestSetupServices(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	const ask = `python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8123/deps/made').read().decode())"`
	service := "services:\n  - name: files\n    run: python3 -m http.server --bind 127.0.0.1 8123\n    ready: |\n      " + ask + "\n"
	dir := makeRepo(t, g, recipe("mkdir deps; echo served >deps/made", service, "warm-up: |\n  "+ask+" >deps/warm\n", "verify: grep served deps/warm\n"))
	g.prepare([]string{dir}, "[setup] make in", "[setup] sealed")
	if run := g.gate(dir, ask+" | grep served"); !strings.Contains(run.stderr, before+"passed") {
		t.Errorf("the gate cannot use the service: %s", run)
	}
	// The control: without the setup there is no service.
	if run := g.gate(dir, ask+" | grep served", "--no-setup"); !strings.Contains(run.stderr, before+"failed") {
		t.Errorf("without the setup the gate has a service: %s", run)
	}
	never := makeRepo(t, g, recipe("mkdir deps", "services:\n  - name: never\n    run: sleep 100\n    ready: \"false\"\n    timeout: 1s\n", "warm-up: \"true\"\n"))
	if run := g.prepare([]string{never}); run.code == 0 || !strings.Contains(run.stderr, "the service never was not ready within 1s") {
		t.Errorf("a service that is never ready: %s", run)
	}
}

// TestSetupIsolated: what an installation does outside of its result is gone, and nobody changes the result.
func TestSetupIsolated(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"container", "gvisor"} {
		if isolation == "gvisor" && !tier.Soaking() {
			continue // the layers are the same ones
		}
		t.Run(isolation, func(t *testing.T) {
			g := newGarden(t)
			g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_ISOLATION="+isolation)
			g.can(isolation, api.CapStart)
			victim := filepath.Join(filepath.Dir(g.dir), "victim")
			evil := `mkdir deps
echo good >deps/made
ln -s ` + filepath.Dir(victim) + ` deps/out; echo evil >deps/out/victim
ln -s /etc deps/etc; echo evil >/etc/evil; echo evil >/tmp/evil; echo evil >/usr/local/bin/evil; echo evil >$HOME/.profile
cp /bin/sh deps/root && chmod 4755 deps/root
mkfifo deps/pipe; mknod deps/disk b 254 0
echo evil >check.sh; echo evil >.git/config; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit
setsid sleep 4242 >/dev/null 2>&1 &
true`
			dir := makeRepo(t, g, recipe(evil))
			// The pipe and the setuid program are named; the script of the repository is not changed.
			g.prepare([]string{dir}, "[setup] sealed", "1 changed files of the repository are left out", "entries are left out")
			if _, err := os.Stat(victim); err == nil {
				t.Error("the installation wrote through a link on the host")
			}
			look := `test "$(cat deps/made)" = good && test "$(cat check.sh)" = "cat deps/made" && ! cat /etc/evil /tmp/evil /usr/local/bin/evil 2>/dev/null &&
! grep -s evil $HOME/.profile .git/config .git/hooks/pre-commit && ! test -u deps/root && ! test -p deps/pipe && ! test -b deps/disk && ! pgrep -f '[s]leep 4242'`
			if run := g.gate(dir, look); !strings.Contains(run.stderr, before+"passed") {
				t.Errorf("something of the installation is there: %s", run)
			}
			// A gate changes its own copy, which is the control: the write itself succeeds.
			spoil := "echo evil >deps/made && rm -f deps/root && echo evil >deps/more && grep -q evil deps/made"
			if run := g.gate(dir, spoil); !strings.Contains(run.stderr, before+"passed") {
				t.Errorf("the control: a gate cannot write: %s", run)
			}
			if run := g.gate(dir, look+" && ! test -e deps/more"); !strings.Contains(run.stderr, "[setup] reused") || !strings.Contains(run.stderr, before+"passed") {
				t.Errorf("a gate changed what all share: %s", run)
			}
		})
	}
}

// TestSetupAccounts: what one account installed is not mounted for another one, which installs by itself.
func TestSetupAccounts(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	dir := makeRepo(t, g, recipe("mkdir deps; head -c 16 /dev/urandom | base64 >deps/made"))
	h := newHub(t, g, forgeserver.GitHub, dir) // a key reaches no directory of this machine
	url := g.serveUntilEnd()
	said := func(account string) string {
		t.Helper()
		c, err := client.Remote(url, strings.TrimSpace(g.must("key", "create", "--role", "admin", "--account", account, "--quiet")))
		if err != nil {
			t.Fatal(err)
		}
		task, err := c.Tasks.Create(t.Context(), api.CreateTask{Request: "Prepare the repository", Model: "offline",
			Repo: &api.RepoTask{URL: h.remote("garden/plot"), PrepareOnly: true, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for e, err := range c.Tasks.Events(t.Context(), task.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, string(e.Data))
		}
		return b.String()
	}
	if got := said("ada"); !strings.Contains(got, "sealed 1 files") {
		t.Errorf("ada: %s", got)
	}
	if got := said("eve"); strings.Contains(got, "reused: make") || !strings.Contains(got, "sealed 1 files") {
		t.Errorf("eve has what ada installed: %s", got)
	}
	// The control: the same account has it.
	if got := said("ada"); !strings.Contains(got, "reused: make") {
		t.Errorf("ada, again: %s", got)
	}
}
