package daemon

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// because requires that the last refusal of a sandbox is of a secret, for a reason.
func because(v *world.Vault, what string, s *client.Sandbox, name, reason string) {
	v.T.Helper()
	if all := v.Refusals(s.ID()); len(all) == 0 || all[0].Secret != name || !strings.Contains(all[0].Refused, reason) {
		v.T.Errorf("%s: %+v; want one of %s with %q", what, all, name, reason)
	}
}

// TestSecretGrantEnds ends the grants of a sandbox that runs: one by its lifetime, one taken away, one with its secret.
func TestSecretGrantEnds(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		names := []string{"stays", "short", "taken", "removed"}
		use := map[string]string{}
		var grants []api.SecretGrant
		for _, name := range names {
			v.Set(name, v.At("example.com", "/"+name, world.InHeader))
			use[name] = `curl -sS -H "Authorization: Bearer $` + strings.ToUpper(name) + `" https://example.com:` + v.Out.Port + "/" + name
			g := api.SecretGrant{Name: name}
			if name == "short" {
				g.LifetimeMS = api.MinSecretLifetime.Milliseconds()
			}
			grants = append(grants, g)
		}
		s := v.Sandbox(api.CreateSandbox{Secrets: grants})
		world.Needs(v.T, s, "curl")
		for _, name := range []string{"stays", "taken", "removed"} {
			v.Works(name+", first", s, use[name], name)
		}
		world.Eventually(v.T, "the lifetime ends", func() bool {
			out, _ := v.Sh(s, use["short"])
			return strings.Contains(out, "the grant of the secret ended at")
		})
		v.Refused("after its lifetime", s, use["short"])
		because(v, "after its lifetime", s, "short", "the grant of the secret ended at")

		row := world.Must(s.RevokeSecret(v.T.Context(), "taken"))(v.T)
		of := func(name string) int {
			n := 0
			for _, r := range row.EgressPolicy.Rules {
				if r.Source == "secret:"+name {
					n++
				}
			}
			return n
		}
		if of("taken") != 0 || of("stays") != 1 {
			v.T.Errorf("%+v", row.EgressPolicy.Rules)
		}
		v.Refused("after it was taken", s, use["taken"])
		because(v, "after it was taken", s, "taken", "taken from the sandbox")
		if _, err := s.Fork(v.T.Context(), api.ForkSandbox{Secrets: []string{"taken"}}); api.KindOf(err) != api.KindInvalid {
			v.T.Errorf("a fork with what was taken: %v", err)
		}
		if _, err := s.RevokeSecret(v.T.Context(), "taken"); api.KindOf(err) != api.KindNotFound {
			v.T.Errorf("taken once more: %v", err)
		}
		world.Must(v.Client.Secrets.Remove(v.T.Context(), "removed"))(v.T)
		v.Refused("after it was removed", s, use["removed"])
		because(v, "after it was removed", s, "removed", "was removed")

		// The rules follow the bindings.
		v.Set("stays", v.At("other.example.com", "/stays", world.InHeader))
		row = world.Must(s.Info(v.T.Context()))(v.T)
		if i := slices.IndexFunc(row.EgressPolicy.Rules, func(r api.EgressRule) bool { return r.Source == "secret:stays" }); of("stays") != 1 || row.EgressPolicy.Rules[i].Host != "other.example.com" {
			v.T.Errorf("%+v", row.EgressPolicy.Rules)
		}
		v.Refused("at its old server", s, use["stays"])
		v.Works("at its new server", s, strings.Replace(use["stays"], "example.com", "other.example.com", 1), "stays")
		// A secret that was removed comes back when it is set again, one that was taken does not.
		v.Set("removed", v.At("example.com", "/removed", world.InHeader))
		v.Works("after it was set again", s, use["removed"], "removed")
		v.Set("taken", v.At("example.com", "/taken", world.InHeader))
		v.Refused("after it was taken and set again", s, use["taken"])
	})
}

// TestSecretAfterTask: a task that is canceled, or ends, uses its secrets no more.
func TestSecretAfterTask(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		v.Set("token", v.At("example.com", "/used/**", world.InHeader))
		other := v.Sandbox(api.CreateSandbox{}, "token")
		world.Needs(v.T, other, "curl", "python3")
		use := func(path string) string {
			return `curl -sS -H "Authorization: Bearer $TOKEN" https://example.com:` + v.Out.Port + "/used/" + path
		}
		for name, c := range map[string]struct {
			until string // the program ends when this is true
			end   func(task api.Task) error
		}{
			"canceled": {"False", func(task api.Task) error { _, err := v.Client.Tasks.Cancel(v.T.Context(), task.ID); return err }},
			"ended":    {"os.path.exists('/tmp/end')", nil},
		} {
			program := "import os, subprocess\nwhile not (" + c.until + "):\n    subprocess.run(['sh', '-c', '''" + use(name) + "'''])\n"
			task := world.Must(v.Client.Tasks.Create(v.T.Context(), api.CreateTask{
				Artifact:     &api.CodeArtifact{Language: api.Python, Run: "python3 main.py", Files: []api.File{{Path: "main.py", Content: program}}},
				Sandbox:      api.CreateSandbox{Isolation: v.Isolation, Egress: v.Policy(), Secrets: []api.SecretGrant{{Name: "token"}}},
				RunTimeoutMS: 600_000,
			}))(v.T)
			world.Eventually(v.T, name+": the control: the task uses the secret", func() bool {
				seen := v.Take()
				return strings.Contains(seen, "/used/"+name+" ") && strings.Contains(seen, v.Value["token"])
			})
			sandbox := boxOf(v, task.ID)
			stolen, err := v.Sh(sandbox, `printf %s "$TOKEN"`)
			if err != nil || !strings.HasPrefix(stolen, "hortus-secret-") {
				v.T.Fatal(stolen, err)
			}
			if c.end == nil {
				if out, err := v.Sh(sandbox, "touch /tmp/end"); err != nil {
					v.T.Fatal(out, err)
				}
			} else if err := c.end(task); err != nil {
				v.T.Fatal(err)
			}
			world.Eventually(v.T, name+": the task ends", func() bool {
				got, err := v.Client.Tasks.Get(v.T.Context(), string(task.ID))
				return err == nil && got.State == api.TaskDone
			})
			v.Take()
			for range 3 {
				if out, err := v.Sh(other, use("other")); err != nil {
					v.T.Error(out, err)
				}
			}
			if seen := v.Take(); strings.Contains(seen, "/used/"+name) || strings.Count(seen, "/used/other ") != 3 {
				v.T.Errorf("%s: after its end the servers got %s", name, seen)
			}
			row, err := sandbox.Info(v.T.Context())
			if err != nil || !row.State.Final() {
				v.T.Errorf("%s: its sandbox is %s, %v", name, row.State, err)
			}
			if _, err := v.Sh(sandbox, use(name)); api.KindOf(err) != api.KindUnavailable {
				v.T.Errorf("%s: a command after the end: %v", name, err)
			}
			// What a program had sent elsewhere is worth nothing.
			v.Refused(name+": its placeholder in another sandbox", other, strings.ReplaceAll(use(name), "$TOKEN", stolen))
		}
	})
}

// boxOf returns the sandbox of a task.
func boxOf(v *world.Vault, id api.TaskID) *client.Sandbox {
	v.T.Helper()
	list := world.Must(v.Client.Sandboxes.List(v.T.Context(), false))(v.T)
	i := slices.IndexFunc(list, func(s api.Sandbox) bool { return s.Task == id })
	if i < 0 {
		v.T.Fatalf("no sandbox of task %s is alive", id)
	}
	s := world.Must(v.Client.Sandboxes.Get(v.T.Context(), string(list[i].ID)))(v.T)
	v.T.Cleanup(func() { s.Close() })
	return s
}
