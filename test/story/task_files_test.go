package story

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// An agent looks for secrets of the repository in every way that git and a shell know, changes what is
// read-only and writes where it may not. The branch has those files as they were.
func TestTaskFilePolicy(t *testing.T) {
	tier.AnyUser(t) // test/conformance workspace/read-only-files and read-only-view are run as each user
	t.Parallel()
	g := newGarden(t)
	g.light()
	dir := makeRepo(t, g, map[string]string{
		"sum.sh": "echo $(($1 - $2))\n", "test.sh": "test \"$(sh sum.sh 2 3)\" = 5\n",
		".env": "TOKEN=hunter2-old\n", "secrets/id_rsa": "hunter2-key\n", "secrets/README": "about\n", "deploy/prod.yaml": "replicas: 3\n",
	})
	fixed := map[string]string{".env": "TOKEN=hunter2-new\n", "secrets/id_rsa": "hunter2-key\n", "deploy/prod.yaml": "replicas: 3\n"}
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(fixed[".env"]), 0o644); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "commit", "-qam", "second")
	const look = `cat .env secrets/id_rsa; cat secrets/README; git show HEAD:.env; git show HEAD~1:.env; git log -p --all; git fsck --full;
		for o in $(git cat-file --batch-all-objects --batch-check='%(objectname)'); do git cat-file -p $o; done; git stash list; git log --oneline | wc -l`
	const change = `echo x > deploy/prod.yaml; rm -rf deploy; mv deploy gone; mkdir -p deploy && echo x > deploy/new; cat deploy/prod.yaml; ls deploy`
	withModels(t, g, scenario(t,
		step{tool: "view", input: map[string]any{"path": ".env"}, want: "Files that are off limits", lacks: "secrets/id_rsa"},
		step{tool: "shell", input: map[string]any{"command": look}, want: "is off limits in this task (rule .env*)"},
		step{tool: "str_replace", input: map[string]any{"path": "deploy/prod.yaml", "old": "3", "new": "4"}, want: "about", lacks: "hunter2"},
		step{tool: "shell", input: map[string]any{"command": change}, want: "it is read-only by the rule deploy/"},
		step{tool: "shell", input: map[string]any{"command": `echo TOKEN=mine > .env; echo x > secrets/id_rsa; printf 'echo $(($1 + $2))\n' > sum.sh`}, want: "replicas: 3", lacks: "hunter2"},
		finishes(), finishes())) // it is told what was refused, once
	withKeys(g, modelKey)
	task, r := onRepo(t, g, dir, "--verify", "sh test.sh", "--read-only", "deploy/", "Fix the sum")
	if r.code != 0 || task.Outcome != api.OutcomeVerified || task.Repo == nil {
		t.Fatal(r)
	}
	if task.Repo.OffLimits != 2 || len(task.Repo.Files) != 1 {
		t.Errorf("%d files are off limits, changed: %+v", task.Repo.OffLimits, task.Repo.Files)
	}
	var refused []string
	for _, c := range task.Repo.Refused {
		refused = append(refused, c.Path+" "+c.Why)
	}
	if got, want := strings.Join(refused, "; "), ".env it is off limits by the rule .env*; secrets/id_rsa it is off limits by the rule id_rsa"; got != want {
		t.Errorf("refused: %s; want %s", got, want)
	}
	if strings.Contains(r.stdout+r.stderr+g.must("task", "logs", string(task.ID)), "hunter2") {
		t.Error("a secret is in the output")
	}
	g.must("task", "apply", string(task.ID), "--repo", dir, "--branch")
	for path, want := range fixed {
		if got := gitIn(t, dir, "show", "hortus/"+string(task.ID)+":"+path); got != want {
			t.Errorf("%s on the branch is %q", path, got)
		}
	}

	// The control: the same agent finds them where everything is an exception.
	g = newGarden(t)
	g.light()
	withModels(t, g, scenario(t,
		step{tool: "shell", input: map[string]any{"command": look}},
		step{tool: "shell", input: map[string]any{"command": `printf 'echo $(($1 + $2))\n' > sum.sh`}, want: "hunter2-old"},
		finishes()))
	withKeys(g, modelKey)
	if task, r := onRepo(t, g, dir, "--verify", "sh test.sh", "--off-limits", "!**", "Fix the sum"); task.Outcome != api.OutcomeVerified {
		t.Error(r)
	}
}
