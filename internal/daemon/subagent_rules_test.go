package daemon

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/task/repo"
)

// TestSubagentsKeepRules: what the sandbox of an agent may not read, change or connect to its copies may not either, and they use its
// secrets as it does. Without the rules both may.
func TestSubagentsKeepRules(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			m := newCrew(t)
			v := newVaultIn(t, isolation, m.env)
			v.onSocket()
			needs(t, v.box(api.CreateSandbox{}), "curl", "python3")
			value := v.set("token", v.at("example.com", "/used/**", inHeader))
			hidden := "hidden-" + rand.Text()
			dir := repositoryOf(t, map[string]string{
				"lib.py":      "def last(items):\n    return items[len(items)]\n",
				"test_lib.py": "import unittest\nfrom lib import last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        self.assertEqual(last([1, 2, 3]), 3)\n",
				"secret.key":  hidden + "\n", "fixed.py": "X = 1\n", "free.py": "Y = 1\n",
			})
			probe := func(who string) []act {
				return shells(fmt.Sprintf(`id -u; cat secret.key; (echo 'X = 2' >>fixed.py) && echo wrote-fixed; (echo 'Y = 2' >>free.py) && echo wrote-free
curl -sS -m 20 -H "Authorization: Bearer $TOKEN" https://example.com:%s/used/%s; curl -sS -m 20 http://closed.example.com:%s/closed/%s; env | grep TOKEN; tr '\0' '\n' </proc/self/environ | grep TOKEN`, v.port, who, v.clear, who))
			}
			for _, open := range []bool{false, true} {
				v.take()
				m.begin(2, map[string][][]act{
					"Fix the failing test": {probe("agent"), asksInCopies("one", "two"), shells("git checkout fixed.py free.py 2>/dev/null; " + mendLast), finishes("done")},
					"one":                  {probe("one"), finishes("answer of one")},
					"two":                  {probe("two"), finishes("answer of two")},
				}, nil)
				req := mending(dir, isolation)
				req.Repo.FilePolicy = api.FilePolicy{OffLimits: []string{"*.key"}, ReadOnly: []string{"fixed.py"}}
				req.Sandbox.Egress, req.Sandbox.Secrets = v.policy(), []api.SecretGrant{{Name: "token"}}
				if open { // the control
					req.Repo.FilePolicy = api.FilePolicy{OffLimits: []string{"!*.key"}}
					req.Sandbox.Egress = v.policy("closed.example.com")
				}
				made, err := v.c.Tasks.Create(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				task, _ := followed(t, v.c, made.ID)
				if task.Outcome != api.OutcomeVerified {
					b, _ := os.ReadFile(repo.TranscriptPath(filepath.Join(v.w.s.dir.Tasks(), string(task.ID))))
					t.Fatalf("%s: %s %v\n%.4000s", task.Outcome, task.Diagnosis, task.Error, b)
				}
				seen := v.take()
				for who, name := range map[string]string{"agent": "Fix the failing test", "one": "one", "two": "two"} {
					got := m.results(name)
					if len(got) == 0 {
						t.Fatalf("%s has no result", who)
					}
					for what, want := range map[string]bool{
						hidden: open, "wrote-fixed": open, "wrote-free": true, "hello hortus-secret-": false, "TOKEN=hortus-secret-": true, "hello Bearer hortus-secret-": true, value: false,
					} {
						if strings.Contains(got[0], what) != want {
							t.Errorf("open %t, %s: %q is there %t:\n%s", open, who, what, !want, got[0])
						}
					}
					if !strings.Contains(seen, "/used/"+who+" ") || strings.Contains(seen, "/closed/"+who+" ") != open {
						t.Errorf("open %t, %s: the servers got\n%s", open, who, seen)
					}
				}
				if n := strings.Count(seen, "Bearer "+value); n != 3 || strings.Contains(seen, "hortus-secret-") {
					t.Errorf("open %t: the servers got the value %d times:\n%s", open, n, seen)
				}
				onlyTheResult(t, v.w, v.c, task)
			}
		})
	}
}

// TestCopyOfRules: a copy may do what its sandbox may do when it is made, not what that could when it was created.
func TestCopyOfRules(t *testing.T) {
	both(t, func(v *vault) {
		v.onSocket() // as its operator, who owns the computers of the test
		needs(v.t, v.box(api.CreateSandbox{}), "curl", "python3")
		for _, name := range []string{"stays", "taken", "short"} {
			v.set(name, v.at("example.com", "/"+name, inHeader))
		}
		if _, err := v.w.s.guards.secrets.Set(api.WithPrincipal(v.t.Context(), api.Operator()), "head", secrets.Set{Value: "value-of-head", ForHeaders: true}); err != nil {
			v.t.Fatal(err)
		}
		port, _ := strconv.Atoi(v.port)
		k := newClones(v.t, v.w, v.isolation, func(box *api.CreateSandbox) {
			box.Egress, box.Limits = v.policy(), api.Limits{MemoryBytes: 2 << 30}
			box.Secrets = []api.SecretGrant{{Name: "stays", LifetimeMS: 3_600_000}, {Name: "taken"}, {Name: "short", LifetimeMS: api.MinSecretLifetime.Milliseconds()}}
			box.Headers = []api.HeaderRule{{Host: "other.example.com", Port: port, Headers: map[string]string{"X-Head": "is ${secret:head}"}}}
		})
		curl := func(c repo.Sandbox, url, secret string) (seen string) {
			v.t.Helper()
			v.take()
			k.run(c, fmt.Sprintf(`curl -sS -m 20 -H "Authorization: Bearer $%s" %s`, strings.ToUpper(secret), url))
			return v.take()
		}
		secure := func(host, path string) string { return "https://" + host + ":" + v.port + path }
		clear := "http://other.example.com:" + v.clear + "/clear"
		check := func(what string, c repo.Sandbox, narrow bool) {
			v.t.Helper()
			if seen := curl(c, secure("example.com", "/stays"), "stays"); !strings.Contains(seen, "Bearer "+v.value["stays"]) {
				v.t.Errorf("%s: a secret is not used: %s", what, seen)
			}
			if seen := curl(c, secure("example.com", "/taken"), "taken"); strings.Contains(seen, v.value["taken"]) == narrow {
				v.t.Errorf("%s: with a secret that was taken: %s", what, seen)
			}
			if seen := curl(c, secure("other.example.com", "/"), "none"); !strings.Contains(seen, "is value-of-head") {
				v.t.Errorf("%s: a header is not set: %s", what, seen)
			}
			if seen := curl(c, clear, "none"); strings.Contains(seen, "/clear") == narrow {
				v.t.Errorf("%s: a connection that was forbidden: %s", what, seen)
			}
		}
		copied := func(what string, narrow bool) {
			v.t.Helper()
			c, err := v.w.s.taskSandboxes.Copy(k.ctx, k.task, k.of, k.p)
			if err != nil {
				v.t.Fatalf("%s: %v (%s)", what, err, api.HintOf(err))
			}
			check(what, c, narrow)
			if seen := curl(c, secure("example.com", "/short"), "short"); narrow && strings.Contains(seen, v.value["short"]) {
				v.t.Errorf("%s: with a secret whose grant has ended: %s", what, seen)
			}
			for _, g := range c.Info().Secrets {
				of, err := v.w.s.sandboxes.Sandboxes.Get(k.ctx, k.of.Info().ID)
				if err != nil {
					v.t.Fatal(err)
				}
				for _, had := range of.Secrets {
					if g.Name == had.Name && had.EndsAt != nil && (g.EndsAt == nil || g.EndsAt.Sub(*had.EndsAt).Minutes() > 1) {
						v.t.Errorf("%s: the grant of %s ends at %v, in the copy at %v", what, g.Name, had.EndsAt, g.EndsAt)
					}
				}
			}
			k.end(c, c.Info().Workspace)
		}
		check("the sandbox", k.of, false)
		copied("a copy", false)
		eventually(v.t, "a grant ends", func() bool {
			return !strings.Contains(curl(k.of, secure("example.com", "/short"), "short"), v.value["short"])
		})
		now, err := v.w.s.sandboxes.Sandboxes.Get(k.ctx, k.of.Info().ID)
		if err != nil {
			v.t.Fatal(err)
		}
		policy := *now.EgressPolicy
		policy.Rules = append([]api.EgressRule{{Action: api.EgressDeny, Host: "other.example.com", Ports: v.clear}}, policy.Rules...)
		if _, err := v.w.s.sandboxes.Policies.SetEgress(k.ctx, k.of.Info().ID, policy); err != nil {
			v.t.Fatal(err)
		}
		if _, err := v.w.s.sandboxes.Policies.RevokeSecret(k.ctx, k.of.Info().ID, "taken"); err != nil {
			v.t.Fatal(err)
		}
		check("the sandbox after the change", k.of, true)
		copied("a copy after the change", true)
		// Nothing at all.
		if _, err := v.w.s.sandboxes.Policies.SetEgress(k.ctx, k.of.Info().ID, api.EgressPolicy{}); err != nil {
			v.t.Fatal(err)
		}
		c, err := v.w.s.taskSandboxes.Copy(k.ctx, k.task, k.of, k.p)
		if err != nil {
			v.t.Fatal(err)
		}
		if seen := curl(c, clear, "none") + curl(c, secure("other.example.com", "/"), "none"); seen != "" {
			v.t.Errorf("the copy of a sandbox that may connect to nothing connects: %s", seen)
		}
		k.end(c, c.Info().Workspace)
	})
}
