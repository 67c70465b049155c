package plan_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/task/plan"
)

// adds is an item that adds a file of its own.
func adds(id string, needs ...string) words.Item {
	return words.Item{ID: id, Request: "Add " + id, Needs: needs, Touches: []string{id + ".txt"}, Creates: []string{id + ".txt"}}
}

func states(p words.Plan) string {
	var out []string
	for _, it := range p.Items {
		out = append(out, it.ID+"="+string(it.State))
	}
	return strings.Join(out, " ")
}

// TestWritable: an item can change what its touches and the writable files of the plan both allow.
func TestWritable(t *testing.T) {
	w := newWorld(t, map[string]string{"src/a.go": "a\n", "src/gen/b.go": "b\n", "docs/c.md": "c\n", "src/fixed.go": "d\n"})
	s := w.daemon(w.db)
	w.tasks.agents["x"] = func(_ context.Context, j job) (map[string]string, error) {
		rules, err := filerule.Compile(j.create.Repo.FilePolicy)
		if err != nil {
			return nil, err
		}
		for path, may := range map[string]bool{"src/a.go": true, "src/new.go": true, "src/gen/b.go": false, "docs/c.md": false, "src/fixed.go": false, "other/d": false} {
			if why := rules.Refuse(path); (why == "") != may {
				t.Errorf("%s: %q", path, why)
			}
		}
		return map[string]string{"src/a.go": "A\n"}, nil
	}
	items := []words.Item{{ID: "x", Request: "Change x", Touches: []string{"src/**", "docs/**"}}}
	change := func(c *words.Create) {
		c.Task.Repo.FilePolicy = api.FilePolicy{Writable: []string{"src/**", "!src/gen/**", "other/**"}, ReadOnly: []string{"src/fixed.go"}}
	}
	if p := w.done(s, w.create(s, items, change).ID); p.Outcome != api.OutcomeVerified {
		t.Errorf("%s: %s", p.Outcome, p.Why)
	}
	_, err := s.Create(t.Context(), words.Create{Items: items, Task: api.CreateTask{Request: "x", Repo: &api.RepoTask{
		URL: w.source, Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, FilePolicy: api.FilePolicy{Writable: []string{"src/**"}, ReadOnly: []string{"src/**", "!src/a.go"}}}}})
	if api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
}

// TestOrder: an item begins when those that it needs are on the branch, and not later than that.
func TestOrder(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	var mu sync.Mutex
	var order []string
	slow := make(chan struct{})
	w.tasks.begun = func(it api.ItemTask) {
		mu.Lock()
		defer mu.Unlock()
		if it.Check == "" {
			order = append(order, it.Item)
		}
	}
	// slow is of the first level, and fast of the second: there are no waves.
	w.tasks.agents["slow"] = func(ctx context.Context, j job) (map[string]string, error) {
		select {
		case <-slow:
		case <-ctx.Done():
		}
		return map[string]string{"slow.txt": "slow\n"}, nil
	}
	w.tasks.agents["fast"] = func(_ context.Context, j job) (map[string]string, error) {
		if j.files["quick.txt"] == "" {
			t.Error("fast does not see the result of quick")
		}
		close(slow)
		return map[string]string{"fast.txt": "fast\n"}, nil
	}
	s := w.daemon(w.db)
	p := w.create(s, []words.Item{adds("slow"), adds("quick"), adds("fast", "quick"), adds("last", "slow", "fast")}, nil)
	p = w.done(s, p.ID)
	if p.Outcome != api.OutcomeVerified || p.Counts[words.Completed] != 4 || p.Checked == "" {
		t.Fatalf("%s: %s: %s", p.Outcome, p.Why, states(p))
	}
	if got := strings.Join(order[2:], " "); got != "fast last" {
		t.Errorf("they began in the order %v", order)
	}
	want := map[string]string{"README": "one\n"}
	for _, id := range []string{"slow", "quick", "fast", "last"} {
		want[id+".txt"] = id + "\n"
	}
	want["last.txt"] = "last\n"
	if got := w.tree(p.Head); !maps.Equal(got, want) {
		t.Errorf("the branch has %v", got)
	}
	r, err := w.git.Find(w.source)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := r.Resolve(t.Context(), p.Branch); err != nil || at.Hash != p.Head {
		t.Errorf("the branch is at %s, %v; want %s", at.Hash, err, p.Head)
	}
	if subjects, err := r.Subjects(t.Context(), p.Head, 10); err != nil || len(subjects) != 5 {
		t.Errorf("%d commits, %v: there is one for each item", len(subjects), err)
	}
}

// TestParallel: no more items are worked on than the plan says.
func TestParallel(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	var items []words.Item
	for i := range 12 {
		items = append(items, adds(fmt.Sprintf("item-%d", i)))
	}
	s := w.daemon(w.db)
	p := w.done(s, w.create(s, items, func(c *words.Create) { c.Parallel = 3 }).ID)
	if p.Outcome != api.OutcomeVerified || w.tasks.most.Load() > 3 {
		t.Errorf("%s, %d at a time", p.Outcome, w.tasks.most.Load())
	}
}

// TestConflict: a result that conflicts goes back to its agent, on the new base, with both changes; the second conflict is for a person.
func TestConflict(t *testing.T) {
	for _, resolves := range []bool{true, false} {
		w := newWorld(t, map[string]string{"list": "one\ntwo\nthree\n", "a": "a\n", "b": "b\n"})
		first := make(chan struct{})
		w.tasks.agents["a"] = func(context.Context, job) (map[string]string, error) {
			return map[string]string{"list": "one\nTWO\nthree\n"}, nil
		}
		w.tasks.agents["b"] = func(ctx context.Context, j job) (map[string]string, error) {
			if j.try == 1 {
				<-first
				return map[string]string{"list": "one\n2\nthree\n"}, nil
			}
			if !strings.Contains(j.files["list"], "<<<<<<< ") || !strings.Contains(j.create.Request, "+TWO") || !strings.Contains(j.create.Request, "+2") {
				t.Errorf("it continues on %q with %s", j.files["list"], j.create.Request)
			}
			if !resolves {
				return map[string]string{"b": "B\n"}, nil // and leaves the marks
			}
			return map[string]string{"list": "one\nTWO and 2\nthree\n"}, nil
		}
		w.tasks.begun = func(it api.ItemTask) {
			if it.Item == "last" && it.Check == "" {
				close(first)
			}
		}
		s := w.daemon(w.db)
		items := []words.Item{
			{ID: "a", Request: "a", Touches: []string{"a"}}, {ID: "b", Request: "b", Touches: []string{"b"}}, adds("last", "a"), adds("after", "b"),
		}
		p := w.done(s, w.create(s, items, nil).ID)
		if resolves {
			if p.Outcome != api.OutcomeVerified || w.tree(p.Head)["list"] != "one\nTWO and 2\nthree\n" {
				t.Errorf("%s: %s: %q", p.Outcome, states(p), w.tree(p.Head)["list"])
			}
			if n := len(p.Items[1].Tries); n != 2 || !slices.Equal(p.Items[1].Tries[0].Conflicts, []string{"list"}) {
				t.Errorf("%+v", p.Items[1].Tries)
			}
			continue
		}
		if states(p) != "a=completed b=failed last=completed after=skipped" || p.Outcome != api.OutcomeNeedsHuman || p.Items[1].Question == "" {
			t.Errorf("%s: %s", p.Outcome, states(p))
		}
		if got := w.tree(p.Head)["list"]; got != "one\nTWO\nthree\n" {
			t.Errorf("the branch has %q", got)
		}
	}
}

// TestCheckFails: what passes alone and fails with the others goes back to its agent, with what failed.
func TestCheckFails(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	w.tasks.judge = func(files map[string]string) string {
		if files["a.txt"] != "" && files["b.txt"] != "" && files["both.txt"] == "" {
			return "a and b do not fit together"
		}
		return ""
	}
	for _, id := range []string{"a", "b"} {
		w.tasks.agents[id] = func(_ context.Context, j job) (map[string]string, error) {
			if j.try == 1 {
				return map[string]string{id + ".txt": id + "\n"}, nil
			}
			if !strings.Contains(j.create.Request, "do not fit together") || j.files[id+".txt"] == "" {
				t.Errorf("it continues on %v with %s", j.files, j.create.Request)
			}
			return map[string]string{"both.txt": "both\n"}, nil
		}
	}
	s := w.daemon(w.db)
	p := w.done(s, w.create(s, []words.Item{adds("a"), adds("b")}, nil).ID)
	if p.Outcome != api.OutcomeVerified || w.tree(p.Head)["both.txt"] == "" || len(p.Items[0].Tries)+len(p.Items[1].Tries) != 3 {
		t.Errorf("%s: %s: %v", p.Outcome, states(p), w.tree(p.Head))
	}
}

// TestFailure: a failed item skips what needs it and nothing else; it can be tried again, with them.
func TestFailure(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	w.tasks.agents["bad"] = func(_ context.Context, j job) (map[string]string, error) {
		if j.try == 1 {
			return nil, errors.New("the tests fail")
		}
		if !strings.Contains(j.create.Request, "Use the other one") {
			t.Errorf("the message is missing: %s", j.create.Request)
		}
		return map[string]string{"bad.txt": "good\n"}, nil
	}
	s := w.daemon(w.db)
	items := []words.Item{adds("good"), adds("bad"), adds("child", "bad"), adds("grandchild", "child", "good"), adds("other", "good")}
	p := w.done(s, w.create(s, items, nil).ID)
	if got := states(p); got != "good=completed bad=failed child=skipped grandchild=skipped other=completed" || p.Outcome != api.OutcomeNeedsHuman {
		t.Fatalf("%s: %s", p.Outcome, got)
	}
	if p.Items[1].Why != "the tests fail" || !strings.Contains(p.Items[2].Why, "bad") {
		t.Errorf("causes: %q, %q", p.Items[1].Why, p.Items[2].Why)
	}
	if _, err := s.Retry(t.Context(), "", p.ID, words.Retry{Item: "good"}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a completed item is tried again: %v", err)
	}
	// The daemon that ran it has ended meanwhile.
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = w.daemon(w.db)
	if _, err := s.Retry(t.Context(), "", p.ID, words.Retry{Item: "bad", Message: "Use the other one"}); err != nil {
		t.Fatal(err)
	}
	p = w.done(s, p.ID)
	if p.Outcome != api.OutcomeVerified || w.tasks.starts != 6 {
		t.Errorf("%s: %s, %d tasks", p.Outcome, states(p), w.tasks.starts)
	}
}

// TestCancel: a plan that is canceled has a receipt, and nothing of it runs.
func TestCancel(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	w.tasks.agents["hangs"] = func(ctx context.Context, _ job) (map[string]string, error) { <-ctx.Done(); return nil, ctx.Err() }
	s := w.daemon(w.db)
	p := w.create(s, []words.Item{adds("one"), adds("hangs", "one"), adds("never", "hangs")}, nil)
	w.until(s, p.ID, "at work", func(p words.Plan) bool { return len(p.Items) > 1 && p.Items[1].Phase == words.Works })
	p, err := s.Cancel(t.Context(), "", p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if p.State != words.Done || p.Outcome != api.OutcomeCanceled || p.Receipt == nil || w.tasks.running.Load() != 0 {
		t.Fatalf("%s, %s, %+v, %d run", p.State, p.Outcome, p.Receipt, w.tasks.running.Load())
	}
	if r := p.Receipt; !slices.Equal(r.Completed, []string{"one"}) || !slices.Equal(r.Skipped, []string{"hangs", "never"}) || r.ProcessesLeft != 0 {
		t.Errorf("receipt %+v", r)
	}
	if again, err := s.Cancel(t.Context(), "", p.ID); err != nil || again.Outcome != api.OutcomeCanceled {
		t.Errorf("a second time: %v, %v", again.Outcome, err)
	}
}

// TestAmendment: an item that needs a file of nobody gets it; of a file of another item, a person decides.
func TestAmendment(t *testing.T) {
	for _, grant := range []bool{true, false} {
		w := newWorld(t, map[string]string{"shared": "one\n", "free": "one\n"})
		w.tasks.agents["a"] = func(_ context.Context, j job) (map[string]string, error) {
			switch j.try {
			case 1:
				return map[string]string{"a.txt": "a\n"}, wants{"free"}
			case 2:
				if !slices.Contains(j.create.Repo.FilePolicy.Writable, "/free") || j.files["a.txt"] != "a\n" {
					t.Errorf("it may write %v and has %v", j.create.Repo.FilePolicy.Writable, j.files)
				}
				return map[string]string{"free": "two\n"}, wants{"shared"}
			}
			may := slices.Contains(j.create.Repo.FilePolicy.Writable, "/shared")
			if may != grant || strings.Contains(j.create.Request, "may not") == grant {
				t.Errorf("it may write %v: %s", j.create.Repo.FilePolicy.Writable, j.create.Request)
			}
			if may {
				return map[string]string{"shared": "two\n"}, nil
			}
			return nil, nil
		}
		hold := make(chan struct{})
		w.tasks.agents["b"] = func(ctx context.Context, _ job) (map[string]string, error) {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return map[string]string{"b.txt": "b\n"}, nil
		}
		s := w.daemon(w.db)
		b := adds("b")
		b.Touches = append(b.Touches, "shared")
		p := w.create(s, []words.Item{adds("a"), b}, nil)
		p = w.until(s, p.ID, "asking", func(p words.Plan) bool { return len(p.Items) > 0 && p.Items[0].Question != "" })
		if it := p.Items[0]; len(it.Amendments) != 2 || it.Amendments[0].Answer != "granted" || it.Amendments[1].Answer != "" || !strings.Contains(it.Question, "item b") {
			t.Errorf("%+v", it)
		}
		if _, err := s.Answer(t.Context(), "", p.ID, words.Answer{Item: "b", Grant: true}); api.KindOf(err) != api.KindConflict {
			t.Errorf("an item that asks nothing is answered: %v", err)
		}
		if _, err := s.Answer(t.Context(), "", p.ID, words.Answer{Item: "a", Grant: grant}); err != nil {
			t.Fatal(err)
		}
		close(hold)
		p = w.done(s, p.ID)
		want := map[bool]string{true: "two\n", false: "one\n"}[grant]
		if got := w.tree(p.Head); p.Outcome != api.OutcomeVerified || got["shared"] != want || got["free"] != "two\n" || got["a.txt"] != "a\n" {
			t.Errorf("%s: %s: %v", p.Outcome, states(p), got)
		}
	}
}

// TestTwoPlans: of two plans that change the same files, one waits for the other, or is refused; two with other files run side by side.
func TestTwoPlans(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	hold := make(chan struct{})
	w.tasks.agents["a"] = func(ctx context.Context, _ job) (map[string]string, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return map[string]string{"a.txt": "a\n"}, nil
	}
	s := w.daemon(w.db)
	first := w.create(s, []words.Item{adds("a")}, nil)
	w.until(s, first.ID, "running", func(p words.Plan) bool { return p.State == words.Running })
	second := w.create(s, []words.Item{{ID: "z", Request: "z", Touches: []string{"*.txt"}, Creates: []string{"*.txt"}}}, nil)
	third := w.create(s, []words.Item{{ID: "r", Request: "r", Touches: []string{"*.txt"}, Creates: []string{"*.txt"}}}, func(c *words.Create) { c.Task.Repo.Overlap = api.OverlapRefuse })
	other := w.create(s, []words.Item{{ID: "readme", Request: "r", Touches: []string{"README"}}}, nil)
	if p := w.done(s, third.ID); p.Error == nil || p.Error.Kind != api.KindConflict || !strings.Contains(p.Why, string(first.ID)) {
		t.Errorf("the third: %s: %v", p.Why, p.Error)
	}
	if p := w.done(s, other.ID); p.Outcome != api.OutcomeVerified {
		t.Errorf("the other: %s: %s", p.Outcome, p.Why)
	}
	p := w.until(s, second.ID, "waiting", func(p words.Plan) bool { return strings.Contains(p.Why, string(first.ID)) })
	if p.State != words.Queued || w.tasks.tries["z"] != 0 {
		t.Errorf("the second is %s", p.State)
	}
	close(hold)
	w.done(s, first.ID)
	if p := w.done(s, second.ID); p.Outcome != api.OutcomeVerified {
		t.Errorf("the second: %s: %s", p.Outcome, p.Why)
	}
}

// TestApproveAndEdit: a proposed plan waits; its items can be replaced, and those that have begun cannot.
func TestApproveAndEdit(t *testing.T) {
	w := newWorld(t, map[string]string{"a.py": "a\n", "b.py": "b\n"})
	hold := make(chan struct{})
	w.tasks.agents["item-1"] = func(ctx context.Context, _ job) (map[string]string, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return map[string]string{"a.py": "A\n"}, nil
	}
	w.tasks.agents["more"] = func(context.Context, job) (map[string]string, error) { return map[string]string{"b.py": "B\n"}, nil }
	s := w.daemon(w.db)
	p := w.create(s, nil, func(c *words.Create) { c.Approve, c.Task.Request = true, "1. Fix a.py\n2. Fix b.py" })
	p = w.until(s, p.ID, "proposed", func(p words.Plan) bool { return p.State == words.Proposed })
	if p.Planner != "offline" || len(p.Items) != 2 || !slices.Equal(p.Items[0].Touches, []string{"/a.py"}) || len(p.Items[1].Needs) != 0 || w.tasks.starts != 0 {
		t.Fatalf("%s: %+v", p.Planner, p.Items)
	}
	bad := []words.Item{p.Items[0].Item, {ID: "more", Request: "more", Touches: []string{"*.py"}}}
	if _, err := s.Edit(t.Context(), "", p.ID, words.Edit{Items: bad}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("items with the same files: %v", err)
	}
	if _, err := s.Edit(t.Context(), "", p.ID, words.Edit{Version: 7, Items: []words.Item{p.Items[0].Item}}); api.KindOf(err) != api.KindConflict {
		t.Errorf("another version: %v", err)
	}
	good := []words.Item{p.Items[0].Item, {ID: "more", Request: "more", Touches: []string{"b.py"}, Needs: []string{"item-1"}}}
	if p, err := s.Edit(t.Context(), "", p.ID, words.Edit{Version: 1, Items: good}); err != nil || p.Version != 2 {
		t.Fatal(p.Version, err)
	}
	if _, err := s.Approve(t.Context(), "somebody else", p.ID); api.KindOf(err) != api.KindNotFound {
		t.Errorf("somebody else approves it: %v", err)
	}
	if _, err := s.Approve(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	w.until(s, p.ID, "at work", func(p words.Plan) bool { return p.Items[0].State == words.InProgress })
	if _, err := s.Edit(t.Context(), "", p.ID, words.Edit{Items: good[1:]}); err == nil {
		t.Error("an item that has begun is removed")
	}
	close(hold)
	if p := w.done(s, p.ID); p.Outcome != api.OutcomeVerified || w.tree(p.Head)["b.py"] != "B\n" {
		t.Errorf("%s: %s", p.Outcome, states(p))
	}
}

// TestPause: a paused plan begins nothing, and continues.
func TestPause(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	hold := make(chan struct{})
	w.tasks.agents["a"] = func(ctx context.Context, _ job) (map[string]string, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return map[string]string{"a.txt": "a\n"}, nil
	}
	s := w.daemon(w.db)
	p := w.create(s, []words.Item{adds("a"), adds("b", "a")}, nil)
	w.until(s, p.ID, "at work", func(p words.Plan) bool { return len(p.Items) > 0 && p.Items[0].Phase == words.Works })
	if _, err := s.Pause(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	close(hold)
	p = w.until(s, p.ID, "at its merge", func(p words.Plan) bool { return p.Items[0].Phase == words.Merges })
	if p.State != words.Paused || p.Items[1].State != words.Pending {
		t.Errorf("%s: %s", p.State, states(p))
	}
	if _, err := s.Resume(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	if p := w.done(s, p.ID); p.Outcome != api.OutcomeVerified {
		t.Errorf("%s: %s", p.Outcome, states(p))
	}
}

// TestFailedCheckWhilePaused: an item whose merged result fails in a paused plan waits until that continues, with what its agent has to know.
func TestFailedCheckWhilePaused(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	checked, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.tasks.judge = func(files map[string]string) (wrong string) {
		if files["a.txt"] != "" && files["b.txt"] != "" {
			once.Do(func() {
				close(checked)
				<-hold
				wrong = "a and b do not fit"
			})
		}
		return wrong
	}
	s := w.daemon(w.db)
	p := w.create(s, []words.Item{adds("a"), adds("b")}, nil)
	<-checked
	if _, err := s.Pause(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	starts := func() int {
		w.tasks.mu.Lock()
		defer w.tasks.mu.Unlock()
		return w.tasks.starts
	}
	close(hold)
	p = w.until(s, p.ID, "back", func(p words.Plan) bool { return p.Counts[words.Pending] == 1 })
	if p.State != words.Paused || p.Counts[words.Completed] != 1 || starts() != 2 {
		t.Errorf("%s: %s, %d tasks", p.State, states(p), starts())
	}
	if _, err := s.Resume(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	if p := w.done(s, p.ID); p.Outcome != api.OutcomeVerified || starts() != 3 {
		t.Errorf("%s: %s, %d tasks", p.Outcome, states(p), starts())
	}
}

// TestAnswerWhilePaused: an answer to an item of a paused plan is kept, also by the next daemon, and the item continues with the plan.
func TestAnswerWhilePaused(t *testing.T) {
	w := newWorld(t, map[string]string{"shared": "one\n"})
	hold := make(chan struct{})
	w.tasks.agents["a"] = func(_ context.Context, j job) (map[string]string, error) {
		if j.try == 1 {
			return map[string]string{"a.txt": "a\n"}, wants{"shared"}
		}
		return map[string]string{"shared": "two\n"}, nil
	}
	w.tasks.agents["b"] = func(ctx context.Context, _ job) (map[string]string, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return map[string]string{"b.txt": "b\n"}, nil
	}
	s := w.daemon(w.db)
	items := []words.Item{adds("a"), {ID: "b", Request: "b", Touches: []string{"shared", "b.txt"}, Creates: []string{"b.txt"}}}
	p := w.create(s, items, nil)
	w.until(s, p.ID, "asking", func(p words.Plan) bool { return len(p.Items) > 0 && p.Items[0].Question != "" })
	if _, err := s.Pause(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	close(hold)
	w.until(s, p.ID, "waiting", func(p words.Plan) bool { return p.Items[1].Phase == words.Merges })
	p, err := s.Answer(t.Context(), "", p.ID, words.Answer{Item: "a", Grant: true})
	if err != nil || p.State != words.Paused || p.Items[0].Phase != words.Asks || len(p.Items[0].Tries) != 1 || p.Items[0].Question != "" || p.Items[0].Amendments[0].Answer != "granted" {
		t.Fatalf("%v: %s, %+v", err, p.State, p.Items[0])
	}
	if _, err := s.Answer(t.Context(), "", p.ID, words.Answer{Item: "a"}); api.KindOf(err) != api.KindConflict {
		t.Errorf("it is answered twice: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = w.daemon(w.db)
	if n, err := s.Recover(t.Context(), func(api.OwnerID) bool { return true }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := s.Resume(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	if p := w.done(s, p.ID); p.Outcome != api.OutcomeVerified || len(p.Items[0].Tries) != 2 || w.tree(p.Head)["shared"] != "two\n" || w.tasks.starts != 3 {
		t.Errorf("%s: %s, %d tries, %d tasks", p.Outcome, states(p), len(p.Items[0].Tries), w.tasks.starts)
	}
}

// TestLeave: a plan that was left before its task stopped waits for the same task in the next daemon: nothing has failed.
func TestLeave(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	began, hold := make(chan struct{}, 2), make(chan struct{})
	w.tasks.agents["a"] = func(context.Context, job) (map[string]string, error) {
		began <- struct{}{}
		<-hold
		return map[string]string{"a.txt": "a\n"}, nil
	}
	w.tasks.agents["b"] = func(_ context.Context, j job) (map[string]string, error) {
		if j.try > 1 {
			return map[string]string{"b.txt": "b\n"}, nil
		}
		began <- struct{}{}
		<-hold
		return nil, errStops
	}
	s := w.daemon(w.db)
	id := w.create(s, []words.Item{adds("a"), adds("b")}, nil).ID
	<-began
	<-began
	s.Leave()
	close(hold)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Get(t.Context(), "", id); err != nil || p.State != words.Running || p.Items[0].State != words.InProgress || p.Items[1].State != words.InProgress {
		t.Fatalf("%v: it is %s: %s", err, p.State, states(p))
	}
	s = w.daemon(w.db)
	if n, err := s.Recover(t.Context(), func(api.OwnerID) bool { return true }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if p := w.done(s, id); p.Outcome != api.OutcomeVerified || len(p.Items[0].Tries) != 1 || len(p.Items[1].Tries) != 1 {
		t.Errorf("%s: %s", p.Outcome, states(p))
	}
}

// TestCheckItems: what is no plan for a repository is refused, with the reason.
func TestCheckItems(t *testing.T) {
	files := []string{"a.py", "src/b.py", "src/c.py"}
	for name, test := range map[string]struct {
		items []words.Item
		why   string
	}{
		"good":           {[]words.Item{{ID: "a", Request: "r", Touches: []string{"a.py"}}, {ID: "b", Request: "r", Touches: []string{"src"}}}, ""},
		"ordered":        {[]words.Item{{ID: "a", Request: "r"}, {ID: "b", Request: "r", Needs: []string{"a"}}}, ""},
		"ordered by two": {[]words.Item{{ID: "a", Request: "r"}, {ID: "b", Request: "r", Needs: []string{"a"}}, {ID: "c", Request: "r", Needs: []string{"b"}}}, ""},
		"none":           {nil, "at least one"},
		"no id":          {[]words.Item{{Request: "r"}}, "not a valid id"},
		"twice":          {[]words.Item{{ID: "a", Request: "r"}, {ID: "a", Request: "r"}}, "two items"},
		"no request":     {[]words.Item{{ID: "a"}}, "no request"},
		"unknown need":   {[]words.Item{{ID: "a", Request: "r", Needs: []string{"b"}}}, "no item"},
		"circle":         {[]words.Item{{ID: "a", Request: "r", Needs: []string{"b"}}, {ID: "b", Request: "r", Needs: []string{"a"}}}, "circle"},
		"itself":         {[]words.Item{{ID: "a", Request: "r", Needs: []string{"a"}}}, "needs itself"},
		"same files":     {[]words.Item{{ID: "a", Request: "r", Touches: []string{"*.py"}}, {ID: "b", Request: "r", Touches: []string{"src/b.py"}}}, "same files"},
		"same directory": {[]words.Item{{ID: "a", Request: "r", Touches: []string{"src"}}, {ID: "b", Request: "r", Touches: []string{"src/b.py"}}}, "same files"},
		"no such file":   {[]words.Item{{ID: "a", Request: "r", Touches: []string{"nothing.py"}}}, "matches no file"},
		"a new one":      {[]words.Item{{ID: "a", Request: "r", Touches: []string{"new.py"}, Creates: []string{"new.py"}}}, ""},
		"not its own":    {[]words.Item{{ID: "a", Request: "r", Touches: []string{"a.py"}, Creates: []string{"new.py"}}}, "do not include"},
		"an exception":   {[]words.Item{{ID: "a", Request: "r", Touches: []string{"!a.py"}}}, "exception"},
		"true":           {[]words.Item{{ID: "a", Request: "r", Acceptance: "true"}}, "cannot fail"},
		"or true":        {[]words.Item{{ID: "a", Request: "r", Acceptance: "make test || true"}}, "cannot fail"},
		"exit 0":         {[]words.Item{{ID: "a", Request: "r", Acceptance: "make test; exit 0"}}, "cannot fail"},
		"can fail":       {[]words.Item{{ID: "a", Request: "r", Acceptance: "make test && echo good"}}, ""},
	} {
		err := plan.Check(plan.Normalize(test.items, files), files)
		if test.why == "" && err != nil || test.why != "" && (api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), test.why)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplan: what is not completed is divided again by the planner, which sees what came of it; what is completed stays.
func TestReplan(t *testing.T) {
	w := newWorld(t, map[string]string{"a.py": "a\n", "b.py": "b\n"})
	w.tasks.agents["item-1"] = func(context.Context, job) (map[string]string, error) { return map[string]string{"a.py": "A\n"}, nil }
	w.tasks.agents["item-2"] = func(_ context.Context, j job) (map[string]string, error) {
		if j.try == 1 {
			return nil, errors.New("it is too hard")
		}
		return map[string]string{"b.py": "B\n"}, nil
	}
	s := w.daemon(w.db)
	p := w.create(s, nil, func(c *words.Create) { c.Task.Request = "1. Fix a.py\n2. Fix b.py" })
	p = w.done(s, p.ID)
	if states(p) != "item-1=completed item-2=failed" {
		t.Fatal(states(p))
	}
	commit := p.Items[0].Commit
	if _, err := s.Replan(t.Context(), "", p.ID, words.Replan{Message: "In small steps", Approve: true}); err != nil {
		t.Fatal(err)
	}
	p = w.until(s, p.ID, "proposed", func(p words.Plan) bool { return p.State == words.Proposed })
	if states(p) != "item-1=completed item-2=pending" || p.Items[0].Commit != commit || p.Version != 2 {
		t.Errorf("%s, version %d", states(p), p.Version)
	}
	if _, err := s.Approve(t.Context(), "", p.ID); err != nil {
		t.Fatal(err)
	}
	p = w.done(s, p.ID)
	if p.Outcome != api.OutcomeVerified || !maps.Equal(w.tree(p.Head), map[string]string{"a.py": "A\n", "b.py": "B\n"}) || w.tasks.starts != 3 {
		t.Errorf("%s: %s, %d tasks", p.Outcome, states(p), w.tasks.starts)
	}
	if _, err := s.Replan(t.Context(), "", p.ID, words.Replan{}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a plan without anything left is divided again: %v", err)
	}
}
