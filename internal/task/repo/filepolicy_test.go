package repo_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// guarded is sum with files that are not for everybody.
func guarded() map[string]string {
	files := map[string]string{".env": "TOKEN=hunter2\n", "secrets/id_rsa": "BEGIN KEY hunter2\n", "config/prod.yaml": "replicas: 3\n", "docs/.env.example": "TOKEN=\n"}
	for p, text := range sum {
		files[p] = text
	}
	return files
}

var usual = api.FilePolicy{OffLimits: api.DefaultOffLimits(), ReadOnly: []string{"/config/"}}

// refusals are the paths that were not taken, each with its reason.
func refusals(r api.RepoResult) map[string]string {
	out := map[string]string{}
	for _, c := range r.Refused {
		out[c.Path] = c.Why
	}
	return out
}

// show is a file of a commit as the host has it, and whether it is there.
func show(t *testing.T, b *bench, task api.Task, head, path string) string {
	t.Helper()
	r, err := b.cache.Find(task.Create.Repo.URL)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.ReadFile(context.Background(), head, path, 1<<20)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestFilePolicy(t *testing.T) {
	t.Parallel()
	shared, src := newBench(t, nowhere{}), makeRepo(t, guarded())
	for _, c := range []struct {
		name   string
		policy api.FilePolicy
		do     string
		want   map[string]string // of refused paths, a part of the reason
		head   map[string]string // what the delivered files are; other files of guarded are as they were
	}{
		{name: "nothing", policy: usual, do: "true"},
		{name: "new files in their places", policy: usual, do: `echo x > .env; mkdir secrets sub; echo x > secrets/id_rsa; echo x > sub/.env.local`,
			want: map[string]string{".env": "off limits by the rule .env*", "secrets/id_rsa": "off limits by the rule id_rsa", "sub/.env.local": ".env*"}},
		{name: "a file in place of the directory", policy: usual, do: `echo x > secrets`, want: map[string]string{"secrets": "a file and a directory"}},
		{name: "read-only changed", policy: usual, do: `echo x > config/prod.yaml; echo y > config/new`, want: map[string]string{"config/prod.yaml": "read-only by the rule /config/", "config/new": "read-only"}},
		{name: "read-only deleted", policy: usual, do: `rm -r config`, want: map[string]string{"config/prod.yaml": "read-only"}},
		{name: "read-only moved with its directory", policy: usual, do: `mv config moved; echo x >> moved/prod.yaml; echo x > config`,
			want: map[string]string{"config/prod.yaml": "read-only", "config": "a file and a directory"}, head: map[string]string{"moved/prod.yaml": "replicas: 3\nx\n"}},
		{name: "not writable", policy: api.FilePolicy{OffLimits: usual.OffLimits, Writable: []string{"*.sh"}}, do: `echo x > AGENTS.md; echo x > config/more`,
			want: map[string]string{"AGENTS.md": "not matched by a writable rule", "config/more": "not matched"}},
		{name: "control: no policy", do: `echo x > .env; echo y > config/prod.yaml; rm secrets/id_rsa`,
			head: map[string]string{".env": "x\n", "config/prod.yaml": "y\n", "secrets/id_rsa": `the commit has no file "secrets/id_rsa"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := shared.in(t)
			end, task := b.do(t.Context(), &scripted{calls: []call{sh(mend + "; " + c.do), finish()}}, api.RepoTask{URL: src, FilePolicy: c.policy})
			if end.Outcome != api.OutcomeVerified {
				t.Fatalf("%s: %s %v", end.Outcome, end.Diagnosis, end.Error)
			}
			got := refusals(end.Result)
			for p, why := range c.want {
				if !strings.Contains(got[p], why) {
					t.Errorf("%s: refused because %q; want %q", p, got[p], why)
				}
				delete(got, p)
			}
			if len(got) > 0 {
				t.Errorf("refused too: %v", got)
			}
			want := guarded()
			want["sum.sh"] = "echo $(($1 + $2))\n"
			for p, text := range c.head {
				want[p] = text
			}
			for p, text := range want {
				if is := show(t, b, task, end.Result.Head, p); is != text {
					t.Errorf("%s is delivered as %q; want %q", p, is, text)
				}
			}
			if hidden := len(c.policy.OffLimits) > 0; (end.Result.OffLimits == 2) != hidden {
				t.Errorf("%d files are off limits", end.Result.OffLimits)
			}
		})
	}
}

// TestOffLimitsIsNowhere: what is off limits is in no message to a model, in no event and in no
// sandbox, the gate's among them.
func TestOffLimitsIsNowhere(t *testing.T) {
	const search = `cat .env secrets/id_rsa; git show HEAD:.env; git log -p --all; git cat-file --batch-all-objects --batch; grep -r hunter2 . && echo found it`
	for _, c := range []struct {
		policy api.FilePolicy
		found  bool
	}{{usual, false}, {api.FilePolicy{}, true}} {
		b := newBench(t, nowhere{})
		files := guarded()
		files["AGENTS.md"] = "Use two spaces.\n"
		files["test.sh"] += "\n" + `for f in .env secrets/id_rsa; do test -e $f && echo "the gate has $f"; done; true` + "\n"
		m := &scripted{calls: []call{
			sh(mend), sh(search), {"view", map[string]any{"path": ".env"}}, {"create", map[string]any{"path": "secrets/id_rsa", "content": "x"}},
			{"view", map[string]any{"path": "config/prod.yaml"}},
			{"str_replace", map[string]any{"path": "config/prod.yaml", "old": "3", "new": "4"}}, {"search", map[string]any{"pattern": "hunter"}}, finish(),
		}}
		end, task := b.do(t.Context(), m, api.RepoTask{URL: makeRepo(t, files), FilePolicy: c.policy})
		if end.Outcome != api.OutcomeVerified {
			t.Fatalf("%s: %s %v", end.Outcome, end.Diagnosis, end.Error)
		}
		var all strings.Builder
		for _, r := range m.asked {
			j, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(j)
		}
		j, err := json.Marshal([]any{b.facts.steps, end})
		if err != nil {
			t.Fatal(err)
		}
		// The pattern that the agent looks for is its own.
		said := strings.ReplaceAll(all.String(), "grep -r hunter2 .", "")
		if strings.Contains(said, "hunter2") != c.found || strings.Contains(string(j), "the gate has .env") != c.found {
			t.Errorf("policy %v: found in messages %t, gate %s", c.policy, strings.Contains(said, "hunter2"), end.Result.Before.Output)
		}
		for _, text := range []string{"is off limits in this task (rule .env*)", "is off limits in this task (rule id_rsa)", "cannot be changed in this task: it is read-only by the rule /config/",
			"Files that are off limits, missing in the workspace"} {
			if strings.Contains(said, text) == c.found {
				t.Errorf("policy %v: %q is in the messages: %t", c.policy, text, c.found)
			}
		}
		if c.found {
			continue
		}
		if got := show(t, b, task, end.Result.Head, ".env"); got != "TOKEN=hunter2\n" {
			t.Errorf("it is delivered as %q", got)
		}
		if !slices.ContainsFunc(b.facts.steps, func(s api.RepoStepEvent) bool {
			return s.Step == "checkout" && strings.HasSuffix(s.Detail, "2 off limits")
		}) {
			t.Errorf("no step says how many files are off limits: %+v", b.facts.steps)
		}
	}
}

// TestGateNeedsOffLimits: a gate that does not find what is off limits says so, with what to do.
func TestGateNeedsOffLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	for _, c := range []struct{ name, test, says string }{
		{"it is off limits", ". ./.env", "It did not find .env, which is off limits in the sandboxes of the task (rule .env*)"},
		{"in a directory", "cat /workspace/secrets/id_rsa", "It did not find secrets/id_rsa, which is off limits"},
		{"the control", "cat other.env; false", ""},
	} {
		files := guarded()
		files["test.sh"] = "#!/bin/sh\n" + c.test + "\n"
		end, _ := b.do(t.Context(), &scripted{calls: []call{sh(mend), finish()}}, api.RepoTask{URL: makeRepo(t, files), FilePolicy: usual, Rounds: -1})
		if end.Outcome != api.OutcomeNeedsHuman || !strings.Contains(end.Diagnosis, c.says) || strings.Contains(end.Diagnosis, "off limits") != (c.says != "") {
			t.Errorf("%s: %s %s", c.name, end.Outcome, end.Diagnosis)
		}
	}
}
