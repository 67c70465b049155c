package repo_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/task/repo"
)

// desk is a forge's: it notes what is asked of it, and fails where it is told to.
type desk struct {
	asked []string
	seen  []repo.Proposal
	fails map[string]error
	// found is what a failing Open tells beside its error.
	found api.Delivery
	terms repo.Terms
}

func (d *desk) note(what string, p repo.Proposal) error {
	d.asked = append(d.asked, what)
	d.seen = append(d.seen, p)
	return d.fails[what]
}

func (d *desk) Terms(context.Context, repo.Proposal) (repo.Terms, error) {
	if d.terms.Prefix == "" {
		d.terms.Prefix = "hortus/"
	}
	return d.terms, nil
}

func (d *desk) Check(_ context.Context, p repo.Proposal) (repo.Verdict, error) {
	if p.Target == "" && p.MergeRequest {
		p.Target = "trunk"
	}
	return repo.Verdict{Target: p.Target}, d.note("check", p)
}

func (d *desk) Open(_ context.Context, p repo.Proposal) (api.Delivery, error) {
	if err := d.note("open", p); err != nil {
		return d.found, err
	}
	return api.Delivery{Forge: "gitea", URL: "http://x/1", Number: 1, Created: true}, nil
}

func (d *desk) Source(_ context.Context, remote string) (git.Source, error) {
	return git.Source{URL: remote}, d.note("source", repo.Proposal{})
}

func (d *desk) Issue(context.Context, string) (forge.Issue, error) {
	return forge.Issue{}, api.Errorf(api.KindUnsupported, "there are no issues here")
}

// TestDeliverAgain: what was not delivered is, later, in the same order; a failure
// leaves the result as it was and what is there known.
func TestDeliverAgain(t *testing.T) {
	down := api.Errorf(api.KindUnavailable, "down").WithHint("later")
	d := &desk{fails: map[string]error{"check": down}}
	b := newBench(t, d)
	remote := t.TempDir()
	runGit(t, remote, "init", "-q", "--bare")
	dir := makeRepo(t, sum)
	end, task := b.do(t.Context(), &scripted{calls: []call{sh(mend), finish()}}, api.RepoTask{URL: dir, MergeRequest: true, Remote: remote})
	if got := end.Result.Delivery; end.Outcome != api.OutcomeVerified || got == nil || got.Error == nil || got.Error.Kind != api.KindUnavailable || got.Pushed != "" || got.Target != "main" {
		t.Fatalf("%s %+v", end.Outcome, got)
	}
	if out := runGit(t, remote, "for-each-ref"); out != "" || slices.Contains(d.asked, "open") {
		t.Fatalf("pushed before the forge agreed: %s %q", out, d.asked)
	}
	task.State, task.Outcome, task.Usage = api.TaskDone, end.Outcome, end.Usage
	again := func(change func(*api.RepoTask)) *api.Delivery {
		t.Helper()
		d.asked, d.seen = nil, nil
		how := *task.Create.Repo
		change(&how)
		job := repo.Job{Task: task, Emit: b.facts}
		job.Task.Create.Repo = &how
		saved := 0
		job.Save = func(_ context.Context, r api.RepoResult) error {
			saved++
			task.Repo = &r
			return nil
		}
		res, err := b.run.Deliver(t.Context(), job)
		if err != nil || saved != 1 || res.Head != end.Result.Head || res.Delivery == nil {
			t.Fatalf("%+v, %v, saved %d times", res, err, saved)
		}
		return res.Delivery
	}
	same := func(*api.RepoTask) {}
	// The push works, the request does not.
	d.fails = map[string]error{"open": down}
	if got := again(same); got.Pushed != remote || got.URL != "" || got.Error == nil || !slices.Equal(d.asked, []string{"check", "source", "open"}) {
		t.Errorf("%+v %q", got, d.asked)
	}
	d.fails = nil
	got := again(same)
	if got.Pushed != remote || got.URL != "http://x/1" || !got.Created || got.Error != nil || got.Target != "main" {
		t.Errorf("%+v", got)
	}
	p := d.seen[len(d.seen)-1]
	if p.Branch != repo.Branch(task.ID) || p.Target != "main" || !p.MergeRequest || len(p.Files) != 1 || p.Files[0].Path != "sum.sh" || p.Files[0].Mode != 0o100644 ||
		p.Task.Usage != end.Usage || p.Task.Repo.Head != end.Result.Head {
		t.Errorf("proposal %+v", p)
	}
	// What is there stays known, and only while it is about the same remote.
	d.fails = map[string]error{"check": down}
	if got := again(same); got.Pushed != remote || got.URL != "http://x/1" || got.Error == nil || got.Created {
		t.Errorf("%+v", got)
	}
	other := t.TempDir()
	if got := again(func(r *api.RepoTask) { r.Remote = other }); got.Pushed != "" || got.URL != "" {
		t.Errorf("another remote: %+v", got)
	}
	// A request that exists although a label failed is not forgotten.
	d.fails, d.found = map[string]error{"open": down}, api.Delivery{Forge: "gitea", URL: "http://x/2", Number: 2}
	task.Repo.Delivery = nil
	if got := again(same); got.URL != "http://x/2" || got.Number != 2 || got.Error == nil {
		t.Errorf("%+v", got)
	}
	// A branch alone aims at nothing; without a branch to have begun at, the forge
	// says where a request goes.
	d.fails = nil
	if got := again(func(r *api.RepoTask) { r.Push, r.MergeRequest = true, false }); got.Target != "" || slices.Contains(d.asked, "open") {
		t.Errorf("%+v %q", got, d.asked)
	}
	task.Repo.Base = ""
	if got := again(same); got.Target != "trunk" || d.seen[len(d.seen)-1].Target != "trunk" {
		t.Errorf("%+v", got)
	}
	if got := again(func(r *api.RepoTask) { r.Target = "next" }); got.Target != "next" {
		t.Errorf("%+v", got)
	}
	// Somebody else moves the branch.
	runGit(t, remote, "update-ref", "refs/heads/"+repo.Branch(task.ID), end.Result.Commit)
	if got := again(same); got.Error == nil || got.Error.Kind != api.KindConflict || !strings.Contains(got.Error.Hint, "another client") {
		t.Errorf("%+v", got)
	}
}
