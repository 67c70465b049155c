package daemon

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
	"hortus.dev/test/world"
)

// objectsWith returns the repositories below a directory with an object that has a text. Objects are
// compressed, and files of objects are not found by holding.
func objectsWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != "objects" {
			return nil
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "HEAD")); err != nil {
			return nil
		}
		s := newSearch(text)
		cmd := exec.CommandContext(t.Context(), "git", "--git-dir", filepath.Dir(path), "cat-file", "--batch", "--batch-all-objects")
		cmd.Stdout, cmd.Env = struct{ io.Writer }{s}, append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("the objects of %s: %v, %s", path, err, &errs)
		}
		if s.found {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// plant writes a text in each of its encodings to files of a directory, and returns these.
func plant(t *testing.T, dir, text string) (paths []string) {
	t.Helper()
	forms := map[string]string{"plain": text, "hex": hex.EncodeToString([]byte(text)), "url": url.QueryEscape(text)}
	for shift := range 3 {
		forms[fmt.Sprint("base64-", shift)] = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", shift) + text + "more"))
	}
	for name, form := range forms {
		path := filepath.Join(dir, "planted-"+name)
		world.OK(t, os.WriteFile(path, []byte("before "+form+" after\n"), 0o600))
		paths = append(paths, path)
	}
	return paths
}

// TestSecretIsNowhereAfterRepair searches what a task on a repository leaves, with an agent, a gate
// and a setup that use secrets and write everything that they know of them.
func TestSecretIsNowhereAfterRepair(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	world.Both(t, func(v *world.Vault) {
		v.OnSocket()
		world.Needs(v.T, v.Sandbox(api.CreateSandbox{}), "curl", "python3", "base64", "git")
		values := map[string]string{"token": v.Set("token", v.At("example.com", "/agent", world.InHeader)), "setup": v.Set("setup", v.At("example.com", "/setup", world.InHeader))}
		// The controls: what the gate and the setup write is where the values must not be.
		labels := map[string]string{"token": "control+of/gate=" + rand.Text(), "setup": "control+of/setup=" + rand.Text()}
		use := func(name, path, file string) string {
			return `curl -sS -v --trace-ascii /tmp/trace -H "Authorization: Bearer $` + strings.ToUpper(name) + `" https://example.com:` + v.Out.Port + path + ` >` + file + ` 2>&1
cat /tmp/trace >>` + file + `; env >>` + file + `; env | base64 -w 0 >>` + file + `; tr '\0' '\n' </proc/$$/environ >>` + file + `
echo; echo '` + labels[name] + `' >>` + file + `; cat ` + file
		}
		dir := gittest.NewCheckout(v.T, map[string]string{
			".gitignore": "deps\n", "lib.py": "def last(items):\n    return items[len(items)]\n",
			"test_lib.py":        "import unittest\nfrom lib import last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        self.assertEqual(last([1, 2, 3]), 3)\n",
			"gate.sh":            "test -s deps/answer || exit 7\n" + use("token", "/agent", "evidence.txt") + "\npython3 -m unittest\n",
			"install.sh":         "mkdir deps\n" + use("setup", "/setup", "deps/answer") + "\n",
			".hortus/setup.yaml": "steps:\n  - name: fetch\n    run: sh install.sh\n",
		})
		task, all := world.RunTask(v.T, v.Client, api.CreateTask{
			Request: "Fix the failing test", Model: "offline",
			Repo:    &api.RepoTask{URL: dir, Verify: "sh gate.sh", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1},
			Sandbox: api.CreateSandbox{Isolation: v.Isolation, Egress: v.Policy(), Secrets: []api.SecretGrant{{Name: "token"}}},

			SetupEgress: v.Policy(), SetupSecrets: []api.SecretGrant{{Name: "setup"}},
		})
		var events strings.Builder
		for _, e := range all {
			fmt.Fprintf(&events, "%+v %s\n", e, e.Data)
		}
		if task.Outcome != api.OutcomeVerified {
			v.T.Fatalf("%+v\n%s", task, &events)
		}
		seen := v.Take()
		for name, value := range values {
			if !strings.Contains(seen, value) {
				v.T.Errorf("the server never got the value of %s: %s", name, seen)
			}
		}
		log := world.Must(os.ReadFile(v.Log))(v.T)
		data := string(v.Dir)
		texts := map[string][2]string{
			"the events": {events.String(), string(task.ID)}, "the log": {string(log), "/v1/secrets/"}, "the task": {fmt.Sprintf("%+v %+v", task, task.Repo), task.Repo.Head},
		}
		for name, value := range values {
			lacks(v.T, value, texts)
			planted := plant(v.T, data, value)
			found := holding(v.T, data, value)
			for _, path := range planted {
				if !slices.Contains(found, path) {
					v.T.Errorf("the control: the value of %s is not found in %s", name, path)
				}
				world.OK(v.T, os.Remove(path))
			}
			found = slices.DeleteFunc(found, func(path string) bool { return slices.Contains(planted, path) })
			if len(found) > 0 {
				v.T.Errorf("the value of %s is in %q", name, found)
			}
			if found := objectsWith(v.T, data, value); found != nil {
				v.T.Errorf("the value of %s is in objects of %q", name, found)
			}
		}
		// The result branch has what the gate wrote, the workspace too, and a layer what the setup wrote.
		if found := objectsWith(v.T, data, labels["token"]); found == nil {
			v.T.Error("the control is in no result branch")
		}
		for name, places := range map[string][]string{"token": {"/tasks/", "/workspaces/"}, "setup": {"/layers/", "/tasks/"}} {
			found := holding(v.T, data, labels[name])
			for _, place := range places {
				if !strings.Contains(strings.Join(found, "\n"), data+place) {
					v.T.Errorf("the control of %s is not in %s: %q", name, place, found)
				}
			}
		}
	})
}
