package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// mending is a request to mend the repository of listRepository or serviceRepository.
func mending(dir, isolation string) api.CreateTask {
	return api.CreateTask{
		Request: "Fix the failing test", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: isolation},
		Repo: &api.RepoTask{URL: dir, Verify: "python3 -m unittest", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Rounds: -1},
	}
}

// processesWith counts the processes of this host with a mark in their command lines.
func processesWith(mark string) (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), mark) {
			n++
		}
	}
	return n
}

// TestSubagents: two sub-agents work at the same time in copies of a sandbox that is in use. What each changes nobody else sees, and
// nothing of them is left. TestCopyInUse looks at what a copy has.
func TestSubagents(t *testing.T) {
	w, m := newWorld(t)
	dir := serviceRepository(t)
	inEach(t, w, func(t *testing.T, isolation string) {
		mark := fmt.Sprintf("mark-%s-%d", isolation, time.Now().UnixNano())
		during, seen := []string{}, 0
		var id api.TaskID
		m.begin(2, map[string][][]act{
			"Fix the failing test": {shells("sh -c 'sleep 1000; : " + mark + "' >/dev/null 2>&1 & echo mine >notes"), asksInCopies("one", "two"), shells("cat notes; ls"), shells(mendLast + "; rm notes"), finishes("done")},
			"one":                  {shells("cat notes; echo one >notes; echo one >from-one; sh -c 'sleep 1000; : " + mark + "' & echo changed"), shells("cat notes; ls"), finishes("answer of one")},
			"two":                  {shells("cat notes; echo two >notes; rm lib.py; echo changed"), shells("cat notes; ls"), finishes("answer of two")},
		}, func() {
			seen = processesWith(mark)
			sandboxes, err := w.Sandboxes.Sandboxes.List(t.Context(), false)
			if err != nil {
				t.Error(err)
			}
			for _, b := range sandboxes {
				if b.Task == id {
					during = append(during, string(b.Workspace))
				}
			}
			// The row names the copies before anybody works in them.
			if task, err := w.Client.Tasks.Get(t.Context(), string(id)); err != nil || task.Repo == nil || len(task.Repo.Copies) != 2 {
				t.Errorf("while they work the row has %+v, %v", task.Repo, err)
			} else {
				for name, ws := range task.Repo.Copies {
					if !slices.Contains(during, ws) {
						t.Errorf("%s has workspace %s, which no sandbox has: %q", name, ws, during)
					}
				}
			}
		})
		made := world.Must(w.Client.Tasks.Create(t.Context(), mending(dir, isolation)))(t)
		m.mu.Lock()
		id = made.ID
		m.mu.Unlock()
		task, _ := world.Follow(t, w.Client, id)
		if task.Outcome != api.OutcomeVerified {
			b, _ := os.ReadFile(repo.TranscriptPath(filepath.Join(w.Dir.Tasks(), string(id))))
			t.Fatalf("%s: %s %v\n%.4000s", task.Outcome, task.Diagnosis, task.Error, b)
		}
		if m.began() != 2 || len(during) != 3 {
			t.Errorf("%d sandboxes while both work: %q", len(during), during)
		}
		if isolation == "container" && seen == 0 {
			t.Error("the control: the program of the agent is not seen while it runs")
		}
		agent := m.results("Fix the failing test")
		if len(agent) < 4 || !strings.Contains(agent[1], "answer of one") || !strings.Contains(agent[2], "answer of two") {
			t.Fatalf("%q", agent)
		}
		if strings.Contains(agent[3], "from-one") || !strings.Contains(agent[3], "mine") || !strings.Contains(agent[3], "lib.py") {
			t.Errorf("after the copies the agent has %q", agent[3])
		}
		for _, who := range []string{"one", "two"} {
			got := m.results(who)
			if len(got) != 2 || !strings.Contains(got[0], "mine") || !strings.Contains(got[0], "changed") || !strings.Contains(got[1], who) || strings.Contains(got[1], "mine") {
				t.Fatalf("%s: %q", who, got)
			}
			if strings.Contains(got[1], "from-one") != (who == "one") || strings.Contains(got[1], "\nlib.py") == (who == "two") {
				t.Errorf("%s has files of another one: %q", who, got[1])
			}
		}
		if len(task.Repo.Copies) != 0 {
			t.Errorf("the row names %v", task.Repo.Copies)
		}
		onlyTheResult(t, w, task)
		if n := processesWith(mark); n > 0 {
			t.Errorf("%d processes with %s are left", n, mark)
		}
	})
}

// TestSubagentsCanceled cancels tasks at random instants, also while sub-agents work in copies and while these are made.
func TestSubagentsCanceled(t *testing.T) {
	w, m := newWorld(t)
	dir := serviceRepository(t)
	n, worked := tier.Count(2, 100), 0
	cancelAnywhere(t, w, n, 90, func(isolation string) api.CreateTask {
		worked += min(1, m.began())
		m.begin(0, map[string][][]act{
			"Fix the failing test": {shells("echo mine >notes; sleep 1000 & sleep 0.2"), asksInCopies("one", "two", "three"), asksInCopies("four"), shells(mendLast), finishes("done")},
			"one":                  {shells("seq 1000 >one; sleep 0.3"), shells("sleep 1000 & sleep 0.3"), finishes("answer of one")},
			"two":                  {shells("sleep 0.5; rm lib.py"), shells("ls"), finishes("answer of two")},
			"three":                {shells("sleep 0.1; ls"), finishes("answer of three")},
			"four":                 {shells("sleep 0.1; ls"), finishes("answer of four")},
		}, nil)
		return mending(dir, isolation)
	})
	if worked += min(1, m.began()); worked == 0 {
		t.Error("no sub-agent had begun before a cancellation")
	}
	t.Logf("sub-agents had begun in %d of %d", worked, n)
}

// TestSubagentsOfCandidates: the sub-agents of two candidates have copies of the sandboxes of their own candidates.
func TestSubagentsOfCandidates(t *testing.T) {
	w, m := newWorld(t)
	dir := listRepository(t, "")
	inEach(t, w, func(t *testing.T, isolation string) {
		var id api.TaskID
		named := map[int]int{}
		m.begin(4, map[string][][]act{
			"plan 1.": {shells("echo first >notes"), asksInCopies("one", "two"), shells("rm notes; " + wrong), finishes("done")},
			"plan 2.": {shells("echo second >notes"), asksInCopies("three", "four"), shells("rm notes; " + mendLast), finishes("done")},
			"one":     {shells("cat notes"), finishes("answer of one")},
			"two":     {shells("cat notes"), finishes("answer of two")},
			"three":   {shells("cat notes"), finishes("answer of three")},
			"four":    {shells("cat notes"), finishes("answer of four")},
		}, func() {
			task, err := w.Client.Tasks.Get(t.Context(), string(id))
			if err != nil || task.Repo == nil {
				t.Errorf("%+v, %v", task.Repo, err)
				return
			}
			for _, r := range task.Repo.Candidates {
				named[r.N] = len(r.Copies)
			}
		})
		req := mending(dir, isolation)
		req.Repo.Best = &api.BestOf{Of: 2, Vary: []api.Variant{{Strategy: "plan 1."}, {Strategy: "plan 2."}}}
		made := world.Must(w.Client.Tasks.Create(t.Context(), req))(t)
		m.mu.Lock()
		id = made.ID
		m.mu.Unlock()
		task, _ := world.Follow(t, w.Client, id)
		if task.Outcome != api.OutcomeVerified || len(task.Repo.Candidates) != 2 || !task.Repo.Candidates[1].Chosen {
			t.Fatalf("%s: %s %v", task.Outcome, task.Diagnosis, task.Error)
		}
		if m.began() != 4 || named[1] != 2 || named[2] != 2 {
			t.Errorf("while they worked the candidates named %v copies", named)
		}
		for who, want := range map[string]string{"one": "first", "two": "first", "three": "second", "four": "second"} {
			if got := m.results(who); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("%s has %q", who, got)
			}
		}
		for _, r := range task.Repo.Candidates {
			if len(r.Copies) != 0 {
				t.Errorf("candidate %d names %v", r.N, r.Copies)
			}
		}
		onlyTheResult(t, w, task)
	})
}

// TestSubagentsOfSession: sub-agents of a turn work in copies of the warm sandbox of the session, which the next turn has again, with the
// programs that run in it.
func TestSubagentsOfSession(t *testing.T) {
	w, m := newWorld(t)
	inEach(t, w, func(t *testing.T, isolation string) {
		p := &parlour{t: t, w: w}
		key := "copies-" + isolation
		set := talkSettings(isolation)
		set.WarmMS = (2 * time.Hour).Milliseconds()
		m.begin(2, map[string][][]act{
			"begin": {shells("echo one >a.txt; (while sleep 0.1; do date +%s%N >/tmp/beat; done) >/dev/null 2>&1 & echo started"), finishes("begun")},
			"look":  {asksInCopies("first", "second"), finishes("looked")},
			"again": {shells("a=$(cat /tmp/beat); sleep 1; test \"$a\" != \"$(cat /tmp/beat)\" && echo it-beats; cat a.txt; ls"), finishes("again")},
			"first": {shells("cat a.txt; echo changed >a.txt; echo x >more"), finishes("answer of first")}, "second": {shells("cat a.txt; rm a.txt"), finishes("answer of second")},
		}, nil)
		answered(t, p.send(key, "begin", set), api.OutcomeAnswered, session.RestoredNew, "begun")
		before := p.get(key).Sandbox
		answered(t, p.send(key, "look", nil), api.OutcomeAnswered, session.RestoredWarm, "looked")
		for _, who := range []string{"first", "second"} {
			if got := m.results(who); len(got) != 1 || !strings.Contains(got[0], "one") {
				t.Errorf("%s has %q", who, got)
			}
		}
		if got := m.results("look"); len(got) != 2 || !strings.Contains(got[0], "answer of first") || !strings.Contains(got[1], "answer of second") {
			t.Errorf("%q", got)
		}
		p.copiesLeft(1)
		answered(t, p.send(key, "again", nil), api.OutcomeAnswered, session.RestoredWarm, "again")
		if got := m.results("again"); len(got) != 1 || !strings.Contains(got[0], "it-beats\none\n") || strings.Contains(got[0], "more") {
			t.Errorf("the next turn has %q", got)
		}
		if s := p.get(key); s.State != session.Warm || s.Sandbox != before {
			t.Errorf("the session is %s with sandbox %s, which was %s", s.State, s.Sandbox, before)
		}
		s := world.Must(p.w.Client.Sessions.Close(t.Context(), key))(t)
		p.nothingLeft(s)
		p.copiesLeft(0)
	})
}

// copiesLeft checks how many sandboxes there are, and that no workspace of a task is.
func (p *parlour) copiesLeft(sandboxes int) {
	p.t.Helper()
	if list, err := p.w.Client.Sandboxes.List(p.t.Context(), false); err != nil || len(list) != sandboxes {
		p.t.Errorf("%d sandboxes, want %d: %v", len(list), sandboxes, err)
	}
	ids := world.Must(p.w.Workspaces.List())(p.t)
	for _, id := range ids {
		if w, err := p.w.Workspaces.Get(id); err == nil && w.Task != "" {
			p.t.Errorf("workspace %s of task %s is left", id, w.Task)
		}
	}
}
