package daemon

import (
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
)

// refusals returns the refused uses of a sandbox, the newest first.
func (v *vault) refusals(id api.SandboxID) (out []secrets.Use) {
	v.t.Helper()
	for u, err := range v.c.Secrets.Uses(v.t.Context(), secrets.UseFilter{Refused: true}) {
		if err != nil {
			v.t.Fatal(err)
		}
		if u.Sandbox == id {
			out = append(out, u)
		}
	}
	return out
}

// because requires that the last refusal of a sandbox is of a secret, for a reason.
func (v *vault) because(what string, s *client.Sandbox, name, reason string) {
	v.t.Helper()
	if all := v.refusals(s.ID()); len(all) == 0 || all[0].Secret != name || !strings.Contains(all[0].Refused, reason) {
		v.t.Errorf("%s: %+v; want one of %s with %q", what, all, name, reason)
	}
}

// TestSecretGrantEnds ends the grants of a sandbox that runs: one by its lifetime, one taken away, one with its secret.
func TestSecretGrantEnds(t *testing.T) {
	both(t, func(v *vault) {
		names := []string{"stays", "short", "taken", "removed"}
		use := map[string]string{}
		var grants []api.SecretGrant
		for _, name := range names {
			v.set(name, v.at("example.com", "/"+name, inHeader))
			use[name] = `curl -sS -H "Authorization: Bearer $` + strings.ToUpper(name) + `" https://example.com:` + v.port + "/" + name
			g := api.SecretGrant{Name: name}
			if name == "short" {
				g.LifetimeMS = api.MinSecretLifetime.Milliseconds()
			}
			grants = append(grants, g)
		}
		s := v.box(api.CreateSandbox{Secrets: grants})
		needs(v.t, s, "curl")
		for _, name := range []string{"stays", "taken", "removed"} {
			v.works(name+", first", s, use[name], name)
		}
		eventually(v.t, "the lifetime ends", func() bool {
			out, _ := sh(v.t, s, use["short"])
			return strings.Contains(out, "the grant of the secret ended at")
		})
		v.refused("after its lifetime", s, use["short"])
		v.because("after its lifetime", s, "short", "the grant of the secret ended at")

		row, err := s.RevokeSecret(v.t.Context(), "taken")
		if err != nil {
			v.t.Fatal(err)
		}
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
			v.t.Errorf("%+v", row.EgressPolicy.Rules)
		}
		v.refused("after it was taken", s, use["taken"])
		v.because("after it was taken", s, "taken", "taken from the sandbox")
		if _, err := s.Fork(v.t.Context(), api.ForkSandbox{Secrets: []string{"taken"}}); api.KindOf(err) != api.KindInvalid {
			v.t.Errorf("a fork with what was taken: %v", err)
		}
		if _, err := s.RevokeSecret(v.t.Context(), "taken"); api.KindOf(err) != api.KindNotFound {
			v.t.Errorf("taken once more: %v", err)
		}
		if _, err := v.c.Secrets.Remove(v.t.Context(), "removed"); err != nil {
			v.t.Fatal(err)
		}
		v.refused("after it was removed", s, use["removed"])
		v.because("after it was removed", s, "removed", "was removed")

		// The rules follow the bindings.
		v.set("stays", v.at("other.example.com", "/stays", inHeader))
		if row, err = s.Info(v.t.Context()); err != nil {
			v.t.Fatal(err)
		}
		if i := slices.IndexFunc(row.EgressPolicy.Rules, func(r api.EgressRule) bool { return r.Source == "secret:stays" }); of("stays") != 1 || row.EgressPolicy.Rules[i].Host != "other.example.com" {
			v.t.Errorf("%+v", row.EgressPolicy.Rules)
		}
		v.works("at its new server", s, strings.Replace(use["stays"], "example.com", "other.example.com", 1), "stays")
		// A secret that was taken does not come back when it is set again.
		v.set("taken", v.at("example.com", "/taken", inHeader))
		v.refused("after it was taken and set again", s, use["taken"])
	})
}

// TestSecretAfterTask: a task that is canceled, or ends, uses its secrets no more.
func TestSecretAfterTask(t *testing.T) {
	both(t, func(v *vault) {
		v.set("token", v.at("example.com", "/used/**", inHeader))
		other := v.box(api.CreateSandbox{}, "token")
		needs(v.t, other, "curl", "python3")
		use := func(path string) string {
			return `curl -sS -H "Authorization: Bearer $TOKEN" https://example.com:` + v.port + "/used/" + path
		}
		for name, c := range map[string]struct {
			until string // the program ends when this is true
			end   func(task api.Task) error
		}{
			"canceled": {"False", func(task api.Task) error { _, err := v.c.Tasks.Cancel(v.t.Context(), task.ID); return err }},
			"ended":    {"os.path.exists('/tmp/end')", nil},
		} {
			program := "import os, subprocess\nwhile not (" + c.until + "):\n    subprocess.run(['sh', '-c', '''" + use(name) + "'''])\n"
			task, err := v.c.Tasks.Create(v.t.Context(), api.CreateTask{
				Artifact:     &api.CodeArtifact{Language: api.Python, Run: "python3 main.py", Files: []api.File{{Path: "main.py", Content: program}}},
				Sandbox:      api.CreateSandbox{Isolation: v.isolation, Egress: v.policy(), Secrets: []api.SecretGrant{{Name: "token"}}},
				RunTimeoutMS: 600_000,
			})
			if err != nil {
				v.t.Fatal(err)
			}
			eventually(v.t, name+": the control: the task uses the secret", func() bool {
				seen := v.take()
				return strings.Contains(seen, "/used/"+name+" ") && strings.Contains(seen, v.value["token"])
			})
			box := v.boxOf(task.ID)
			stolen, err := sh(v.t, box, `printf %s "$TOKEN"`)
			if err != nil || !strings.HasPrefix(stolen, "hortus-secret-") {
				v.t.Fatal(stolen, err)
			}
			if c.end == nil {
				if out, err := sh(v.t, box, "touch /tmp/end"); err != nil {
					v.t.Fatal(out, err)
				}
			} else if err := c.end(task); err != nil {
				v.t.Fatal(err)
			}
			eventually(v.t, name+": the task ends", func() bool {
				got, err := v.c.Tasks.Get(v.t.Context(), string(task.ID))
				return err == nil && got.State == api.TaskDone
			})
			v.take()
			for range 3 {
				if out, err := sh(v.t, other, use("other")); err != nil {
					v.t.Error(out, err)
				}
			}
			if seen := v.take(); strings.Contains(seen, "/used/"+name) || strings.Count(seen, "/used/other ") != 3 {
				v.t.Errorf("%s: after its end the servers got %s", name, seen)
			}
			row, err := box.Info(v.t.Context())
			if err != nil || !row.State.Final() {
				v.t.Errorf("%s: its sandbox is %s, %v", name, row.State, err)
			}
			if _, err := sh(v.t, box, use(name)); api.KindOf(err) != api.KindUnavailable {
				v.t.Errorf("%s: a command after the end: %v", name, err)
			}
			// What a program had sent elsewhere is worth nothing.
			v.refused(name+": its placeholder in another sandbox", other, strings.ReplaceAll(use(name), "$TOKEN", stolen))
		}
	})
}

// boxOf returns the sandbox of a task.
func (v *vault) boxOf(id api.TaskID) *client.Sandbox {
	v.t.Helper()
	list, err := v.c.Sandboxes.List(v.t.Context(), false)
	if err != nil {
		v.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(s api.Sandbox) bool { return s.Task == id })
	if i < 0 {
		v.t.Fatalf("no sandbox of task %s is alive", id)
	}
	s, err := v.c.Sandboxes.Get(v.t.Context(), string(list[i].ID))
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { s.Close() })
	return s
}
