package agents

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
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestSubagentsKeepRules: what the sandbox of an agent may not read, change or connect to its copies may not either, and they use its
// secrets as it does. Without the rules both may.
func TestSubagentsKeepRules(t *testing.T) {
	t.Parallel()
	for _, isolation := range tier.First(1, []string{"container", "gvisor"}) {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			m := newCrew(t)
			v := world.NewVault(t, isolation, m.env)
			v.OnSocket()
			world.Needs(t, v.Sandbox(api.CreateSandbox{}), "curl", "python3")
			value := v.Set("token", v.At("example.com", "/used/**", world.InHeader))
			hidden := "hidden-" + rand.Text()
			dir := gittest.NewCheckout(t, map[string]string{
				"lib.py":      "def last(items):\n    return items[len(items)]\n",
				"test_lib.py": "import unittest\nfrom lib import last\n\nclass T(unittest.TestCase):\n    def test_last(self):\n        self.assertEqual(last([1, 2, 3]), 3)\n",
				"secret.key":  hidden + "\n", "fixed.py": "X = 1\n", "free.py": "Y = 1\n",
			})
			probe := func(who string) []act {
				return shells(fmt.Sprintf(`id -u; cat secret.key; (echo 'X = 2' >>fixed.py) && echo wrote-fixed; (echo 'Y = 2' >>free.py) && echo wrote-free
curl -sS -m 20 -H "Authorization: Bearer $TOKEN" https://example.com:%s/used/%s; curl -sS -m 20 http://closed.example.com:%s/closed/%s; env | grep TOKEN; tr '\0' '\n' </proc/self/environ | grep TOKEN`, v.Out.Port, who, v.Out.Clear, who))
			}
			for _, open := range []bool{false, true} {
				v.Take()
				m.begin(2, map[string][][]act{
					"Fix the failing test": {probe("agent"), asksInCopies("one", "two"), shells("git checkout fixed.py free.py 2>/dev/null; " + mendLast), finishes("done")},
					"one":                  {probe("one"), finishes("answer of one")},
					"two":                  {probe("two"), finishes("answer of two")},
				}, nil)
				req := mending(dir, isolation)
				req.Repo.FilePolicy = api.FilePolicy{OffLimits: []string{"*.key"}, ReadOnly: []string{"fixed.py"}}
				req.Sandbox.Egress, req.Sandbox.Secrets = v.Policy(), []api.SecretGrant{{Name: "token"}}
				if open { // the control
					req.Repo.FilePolicy = api.FilePolicy{OffLimits: []string{"!*.key"}}
					req.Sandbox.Egress = v.Policy("closed.example.com")
				}
				task, _ := world.RunTask(t, v.Client, req)
				if task.Outcome != api.OutcomeVerified {
					b, _ := os.ReadFile(repo.TranscriptPath(filepath.Join(v.Dir.Tasks(), string(task.ID))))
					t.Fatalf("%s: %s %v\n%.4000s", task.Outcome, task.Diagnosis, task.Error, b)
				}
				seen := v.Take()
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
				onlyTheResult(t, v.World, task)
			}
		})
	}
}

// TestCopyOfRules: a copy may do what its sandbox may do when it is made, not what that could when it was created.
func TestCopyOfRules(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		v.OnSocket() // as its operator, who owns the computers of the test
		world.Needs(v.T, v.Sandbox(api.CreateSandbox{}), "curl", "python3")
		for _, name := range []string{"stays", "taken", "short"} {
			v.Set(name, v.At("example.com", "/"+name, world.InHeader))
		}
		world.Must(v.Client.Secrets.Set(v.T.Context(), "head", secrets.Set{Value: "value-of-head", ForHeaders: true}))(v.T)
		port, _ := strconv.Atoi(v.Out.Port)
		k := newClones(v.T, v.World, v.Isolation, func(sandbox *api.CreateSandbox) {
			sandbox.Egress, sandbox.Limits = v.Policy(), api.Limits{MemoryBytes: 2 << 30}
			sandbox.Secrets = []api.SecretGrant{{Name: "stays", LifetimeMS: 3_600_000}, {Name: "taken"}, {Name: "short", LifetimeMS: api.MinSecretLifetime.Milliseconds()}}
			sandbox.Headers = []api.HeaderRule{{Host: "other.example.com", Port: port, Headers: map[string]string{"X-Head": "is ${secret:head}"}}}
		})
		curl := func(c repo.Sandbox, url, secret string) (seen string) {
			v.T.Helper()
			v.Take()
			k.run(c, fmt.Sprintf(`curl -sS -m 20 -H "Authorization: Bearer $%s" %s`, strings.ToUpper(secret), url))
			return v.Take()
		}
		secure := func(host, path string) string { return "https://" + host + ":" + v.Out.Port + path }
		clear := "http://other.example.com:" + v.Out.Clear + "/clear"
		check := func(what string, c repo.Sandbox, narrow bool) {
			v.T.Helper()
			if seen := curl(c, secure("example.com", "/stays"), "stays"); !strings.Contains(seen, "Bearer "+v.Value["stays"]) {
				v.T.Errorf("%s: a secret is not used: %s", what, seen)
			}
			if seen := curl(c, secure("example.com", "/taken"), "taken"); strings.Contains(seen, v.Value["taken"]) == narrow {
				v.T.Errorf("%s: with a secret that was taken: %s", what, seen)
			}
			if seen := curl(c, secure("other.example.com", "/"), "none"); !strings.Contains(seen, "is value-of-head") {
				v.T.Errorf("%s: a header is not set: %s", what, seen)
			}
			if seen := curl(c, clear, "none"); strings.Contains(seen, "/clear") == narrow {
				v.T.Errorf("%s: a connection that was forbidden: %s", what, seen)
			}
		}
		copied := func(what string, narrow bool) {
			v.T.Helper()
			c, err := v.TaskSandboxes.Copy(k.ctx, k.task, k.of, k.p)
			if err != nil {
				v.T.Fatalf("%s: %v (%s)", what, err, api.HintOf(err))
			}
			check(what, c, narrow)
			if seen := curl(c, secure("example.com", "/short"), "short"); narrow && strings.Contains(seen, v.Value["short"]) {
				v.T.Errorf("%s: with a secret whose grant has ended: %s", what, seen)
			}
			for _, g := range c.Info().Secrets {
				of := world.Must(v.Sandboxes.Sandboxes.Get(k.ctx, k.of.Info().ID))(v.T)
				for _, had := range of.Secrets {
					if g.Name == had.Name && had.EndsAt != nil && (g.EndsAt == nil || g.EndsAt.Sub(*had.EndsAt).Minutes() > 1) {
						v.T.Errorf("%s: the grant of %s ends at %v, in the copy at %v", what, g.Name, had.EndsAt, g.EndsAt)
					}
				}
			}
			k.end(c, c.Info().Workspace)
		}
		check("the sandbox", k.of, false)
		copied("a copy", false)
		world.Eventually(v.T, "a grant ends", func() bool {
			return !strings.Contains(curl(k.of, secure("example.com", "/short"), "short"), v.Value["short"])
		})
		now := world.Must(v.Sandboxes.Sandboxes.Get(k.ctx, k.of.Info().ID))(v.T)
		policy := *now.EgressPolicy
		policy.Rules = append([]api.EgressRule{{Action: api.EgressDeny, Host: "other.example.com", Ports: v.Out.Clear}}, policy.Rules...)
		world.Must(v.Sandboxes.Policies.SetEgress(k.ctx, k.of.Info().ID, policy))(v.T)
		world.Must(v.Sandboxes.Policies.RevokeSecret(k.ctx, k.of.Info().ID, "taken"))(v.T)
		check("the sandbox after the change", k.of, true)
		copied("a copy after the change", true)
		// Nothing at all.
		world.Must(v.Sandboxes.Policies.SetEgress(k.ctx, k.of.Info().ID, api.EgressPolicy{}))(v.T)
		c := world.Must(v.TaskSandboxes.Copy(k.ctx, k.task, k.of, k.p))(v.T)
		if seen := curl(c, clear, "none") + curl(c, secure("other.example.com", "/"), "none"); seen != "" {
			v.T.Errorf("the copy of a sandbox that may connect to nothing connects: %s", seen)
		}
		k.end(c, c.Info().Workspace)
	})
}
