package daemon

import (
	"bytes"
	"context"
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
	"hortus.dev/client"
)

// repositoryOf commits files to a new repository.
func repositoryOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return dir
}

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
		if err := os.WriteFile(path, []byte("before "+form+" after\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// onSocket makes the vault a client of the daemon's own socket, which may name directories.
func (v *vault) onSocket() {
	v.t.Helper()
	ctx, stop := context.WithCancel(v.t.Context())
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- v.w.s.Serve(ctx, func() { close(ready) }) }()
	v.t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			v.t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-served:
		served <- err
		v.t.Fatalf("the daemon does not serve: %v", err)
	}
	v.c = client.Unix(v.w.s.dir.Socket())
	v.t.Cleanup(v.c.Close)
}

// TestSecretIsNowhereAfterRepair searches what a task on a repository leaves, with an agent, a gate
// and a setup that use secrets and write everything that they know of them.
func TestSecretIsNowhereAfterRepair(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	both(t, func(v *vault) {
		v.onSocket()
		needs(v.t, v.box(api.CreateSandbox{}), "curl", "python3", "base64", "git")
		values := map[string]string{"token": v.set("token", v.at("example.com", "/agent", inHeader)), "setup": v.set("setup", v.at("example.com", "/setup", inHeader))}
		// The controls: what the gate and the setup write is where the values must not be.
		labels := map[string]string{"token": "control+of/gate=" + rand.Text(), "setup": "control+of/setup=" + rand.Text()}
		use := func(name, path, file string) string {
			return `curl -sS -v --trace-ascii /tmp/trace -H "Authorization: Bearer $` + strings.ToUpper(name) + `" https://example.com:` + v.port + path + ` >` + file + ` 2>&1
cat /tmp/trace >>` + file + `; env >>` + file + `; env | base64 -w 0 >>` + file + `; tr '\0' '\n' </proc/$$/environ >>` + file + `
echo; echo '` + labels[name] + `' >>` + file + `; cat ` + file
		}
		dir := repositoryOf(v.t, map[string]string{
			".gitignore": "deps\n", "lib.py": "def last(items):\n    return items[len(items)]\n",
			"test_lib.py":        "import unittest\nfrom lib import last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        self.assertEqual(last([1, 2, 3]), 3)\n",
			"gate.sh":            "test -s deps/answer || exit 7\n" + use("token", "/agent", "evidence.txt") + "\npython3 -m unittest\n",
			"install.sh":         "mkdir deps\n" + use("setup", "/setup", "deps/answer") + "\n",
			".hortus/setup.yaml": "steps:\n  - name: fetch\n    run: sh install.sh\n",
		})
		task, err := v.c.Tasks.Create(v.t.Context(), api.CreateTask{
			Request: "Fix the failing test", Model: "offline",
			Repo:    &api.RepoTask{URL: dir, Verify: "sh gate.sh", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1},
			Sandbox: api.CreateSandbox{Isolation: v.isolation, Egress: v.policy(), Secrets: []api.SecretGrant{{Name: "token"}}},

			SetupEgress: v.policy(), SetupSecrets: []api.SecretGrant{{Name: "setup"}},
		})
		if err != nil {
			v.t.Fatal(err)
		}
		var events strings.Builder
		for e, err := range v.c.Tasks.Events(v.t.Context(), task.ID, 0) {
			if err != nil {
				v.t.Fatal(err)
			}
			fmt.Fprintf(&events, "%+v %s\n", e, e.Data)
		}
		if task, err = v.c.Tasks.Get(v.t.Context(), string(task.ID)); err != nil || task.Outcome != api.OutcomeVerified {
			v.t.Fatalf("%+v, %v\n%s", task, err, &events)
		}
		seen := v.take()
		for name, value := range values {
			if !strings.Contains(seen, value) {
				v.t.Errorf("the server never got the value of %s: %s", name, seen)
			}
		}
		log, err := os.ReadFile(v.log)
		if err != nil {
			v.t.Fatal(err)
		}
		data := string(v.w.s.dir)
		texts := map[string]struct{ text, control string }{
			"the events": {events.String(), string(task.ID)}, "the log": {string(log), "/v1/secrets/"}, "the task": {fmt.Sprintf("%+v %+v", task, task.Repo), task.Repo.Head},
		}
		for name, value := range values {
			for what, c := range texts {
				bad := newSearch(value)
				if _, _ = io.WriteString(bad, c.text); bad.found || c.control == "" || !strings.Contains(c.text, c.control) {
					v.t.Errorf("%s: the value of %s is there: %v; the control %q is there: %v", what, name, bad.found, c.control, strings.Contains(c.text, c.control))
				}
			}
			planted := plant(v.t, data, value)
			found := holding(v.t, data, value)
			for _, path := range planted {
				if !slices.Contains(found, path) {
					v.t.Errorf("the control: the value of %s is not found in %s", name, path)
				}
				if err := os.Remove(path); err != nil {
					v.t.Fatal(err)
				}
			}
			found = slices.DeleteFunc(found, func(path string) bool { return slices.Contains(planted, path) })
			if len(found) > 0 {
				v.t.Errorf("the value of %s is in %q", name, found)
			}
			if found := objectsWith(v.t, data, value); found != nil {
				v.t.Errorf("the value of %s is in objects of %q", name, found)
			}
		}
		// The result branch has what the gate wrote, the workspace too, and a layer what the setup wrote.
		if found := objectsWith(v.t, data, labels["token"]); found == nil {
			v.t.Error("the control is in no result branch")
		}
		for name, places := range map[string][]string{"token": {"/tasks/", "/workspaces/"}, "setup": {"/layers/", "/tasks/"}} {
			found := holding(v.t, data, labels[name])
			for _, place := range places {
				if !strings.Contains(strings.Join(found, "\n"), data+place) {
					v.t.Errorf("the control of %s is not in %s: %q", name, place, found)
				}
			}
		}
	})
}
