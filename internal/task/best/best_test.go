package best_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/best"
)

// fake is a candidate that comes to what it is told.
type fake struct {
	// failing is how many tests fail with its result; -1 is none, and its gate passed.
	failing int
	outcome api.Outcome // needs_human or verified by default
	how     best.Entry
	waits   bool // until it is ended
	oldOnly bool
	tests   bool  // it wrote some
	loses   []int // whose tests it fails
	tried   int

	ended api.Outcome
}

func (f *fake) Enter(ctx context.Context, begins func()) best.Entry {
	if f.how == best.Worked {
		begins()
	}
	f.ended = f.outcome
	if f.waits {
		<-ctx.Done()
		f.ended = api.OutcomeCanceled
	}
	switch {
	case f.ended != "":
	case f.failing < 0:
		f.ended = api.OutcomeVerified
	default:
		f.ended = api.OutcomeNeedsHuman
	}
	return f.how
}

func (f *fake) Result() best.Result {
	s := best.Result{Outcome: f.ended, OldOnly: f.oldOnly, Why: "says " + fmt.Sprint(f.failing)}
	if f.how == best.Absent {
		return s
	}
	s.Repo = api.RepoResult{
		Workspace: "ws_1", Files: []api.FileChange{{Path: "a", Added: 1}},
		Rounds: []api.Round{{N: 1, Gate: &api.Gate{Passed: f.failing < 0, Tests: &api.TestReport{Failed: max(f.failing, 0)}}}},
	}
	return s
}

func (f *fake) Tests(context.Context) (bool, error) { return f.tests, nil }

func (f *fake) Try(_ context.Context, n int) (bool, error) {
	f.tried++
	return !slices.Contains(f.loses, n), nil
}

func (*fake) Lint(context.Context, string) (bool, error) { return true, nil }

// told keeps what a contest stores and tells.
type told struct {
	mu     sync.Mutex
	stored [][]api.Candidate
	events []api.Candidate
	more   int // levels that may begin after the first one
	damage bool
}

func (k *told) contest(r api.BestOf, all ...*fake) *best.Candidates {
	r.Vary = make([]api.Variant, r.Of)
	return best.New(best.Config{
		Task: "task_1", Request: r, AtOnce: 8,
		Enter: func(row *api.Candidate) best.Candidate { return all[row.N-1] },
		Store: func(_ context.Context, rows []api.Candidate) error { k.stored = append(k.stored, rows); return nil },
		Tell: func(_ context.Context, row api.Candidate) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.events = append(k.events, row)
		},
		More:    func() bool { k.more--; return k.more >= 0 },
		Damaged: func() bool { return k.damage },
	})
}

// failing are candidates with so many failing tests.
func failing(n ...int) (out []*fake) {
	for _, x := range n {
		out = append(out, &fake{failing: x})
	}
	return out
}

// TestLevels: each level continues the best candidate that no level has continued.
func TestLevels(t *testing.T) {
	but := func(all []*fake, n int, change func(*fake)) []*fake { change(all[n-1]); return all }
	for _, c := range []struct {
		name    string
		r       api.BestOf
		all     []*fake
		more    int
		parents []int
		best    int
	}{
		{"one level", api.BestOf{Of: 3}, failing(3, 1, 2), 9, []int{0, 0, 0}, 2},
		{"the best one is continued", api.BestOf{Of: 3, Depth: 2}, failing(3, 1, 2, 2, 1, 0), 9, []int{0, 0, 0, 2, 2, 2}, 6},
		{"deeper while it gets better", api.BestOf{Of: 2, Depth: 4}, failing(9, 8, 7, 8, 5, 7, 4, 5), 9, []int{0, 0, 2, 2, 3, 3, 5, 5}, 7},
		{"back to another branch", api.BestOf{Of: 2, Depth: 3}, failing(1, 2, 3, 4, 0, 5), 9, []int{0, 0, 1, 1, 2, 2}, 5},
		{"back twice", api.BestOf{Of: 2, Depth: 4}, failing(1, 2, 3, 9, 9, 9, 9, 9), 9, []int{0, 0, 1, 1, 2, 2, 3, 3}, 1},
		{"nothing is continued twice", api.BestOf{Of: 1, Depth: 3}, failing(1, 2, 3), 9, []int{0, 1, 2}, 1},
		{"it ends when one passes", api.BestOf{Of: 2, Depth: 4}, failing(1, 2, 3, -1), 9, []int{0, 0, 1, 1}, 4},
		{"one that leaves old failures does not end it", api.BestOf{Of: 2, Depth: 2}, but(failing(1, 2, -1, 4), 1, func(f *fake) { f.oldOnly = true }), 9, []int{0, 0, 1, 1}, 3},
		{"one that leaves old failures is no better before the end", api.BestOf{Of: 2, Depth: 2}, but(failing(3, 1, 2, 4), 1, func(f *fake) { f.oldOnly = true }), 9, []int{0, 0, 2, 2}, 1},
		{"time is up", api.BestOf{Of: 2, Depth: 4}, failing(1, 2, 3, 4), 1, []int{0, 0, 1, 1}, 1},
		{"one that failed is not continued", api.BestOf{Of: 2, Depth: 2}, but(failing(0, 2, 3, 4), 1, func(f *fake) { f.outcome = api.OutcomeFailed }), 9, []int{0, 0, 2, 2}, 1},
		{"none can be continued", api.BestOf{Of: 2, Depth: 6}, but(but(failing(1, 2), 1, func(f *fake) { f.outcome = api.OutcomeDeclined }), 2, func(f *fake) { f.outcome = api.OutcomeFailed }), 9, []int{0, 0}, 1},
		{"one without files is not continued", api.BestOf{Of: 2, Depth: 2}, but(failing(0, 2, 3, 4), 1, func(f *fake) { f.how = best.Absent }), 9, []int{0, 0, 2, 2}, 2},
	} {
		k := &told{more: c.more}
		x := k.contest(c.r, c.all...)
		x.Run(t.Context())
		n := x.Choose()
		var parents []int
		for i, r := range x.Rows() {
			parents = append(parents, r.Parent)
			if level := (i / c.r.Of) + 1; c.r.Levels() > 1 && r.Level != level || c.r.Levels() == 1 && r.Level != 0 {
				t.Errorf("%s: candidate %d is on level %d", c.name, r.N, r.Level)
			}
			if r.State != api.CandidateEnded || r.Why == "" || r.Chosen != (r.N == c.best) {
				t.Errorf("%s: %+v", c.name, r)
			}
		}
		if !slices.Equal(parents, c.parents) || n != c.best {
			t.Errorf("%s: parents %v, best %d; want %v, %d", c.name, parents, n, c.parents, c.best)
		}
		// What was stored last is what is known, but for the choice.
		if last := k.stored[len(k.stored)-1]; len(last) != len(c.parents) {
			t.Errorf("%s: %d candidates were stored", c.name, len(last))
		}
	}
}

// TestRecalledTree: candidates that are recalled give the same tree, and are not told again.
func TestRecalledTree(t *testing.T) {
	for recalled := range 7 {
		all := failing(1, 2, 3, 4, 0, 5)
		for _, f := range all[:recalled] {
			f.how = best.Recalled
		}
		k := &told{more: 9}
		x := k.contest(api.BestOf{Of: 2, Depth: 3}, all...)
		x.Run(t.Context())
		var parents []int
		for _, r := range x.Rows() {
			parents = append(parents, r.Parent)
		}
		if want := []int{0, 0, 1, 1, 2, 2}; !slices.Equal(parents, want) || x.Choose() != 5 || len(k.events) != 2*(6-recalled) {
			t.Errorf("%d recalled: parents %v, %d events", recalled, parents, len(k.events))
		}
	}
}

// TestNoLevelAfter: no level begins after the task was canceled, or cannot be continued, and the first that passes ends those
// of its level.
func TestNoLevelAfter(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := &told{more: 9}
	x := k.contest(api.BestOf{Of: 2, Depth: 3}, failing(1, 2)...)
	if x.Run(ctx); len(x.Rows()) != 2 {
		t.Errorf("canceled: %+v", x.Rows())
	}
	k = &told{more: 9, damage: true}
	x = k.contest(api.BestOf{Of: 2, Depth: 3}, failing(1, 2)...)
	if x.Run(t.Context()); len(x.Rows()) != 2 {
		t.Errorf("damaged: %+v", x.Rows())
	}
	k = &told{more: 9}
	all := failing(1, 2, -1, 4)
	all[3].waits = true
	x = k.contest(api.BestOf{Of: 2, Depth: 3, First: true}, all...)
	x.Run(t.Context())
	if rows := x.Rows(); len(rows) != 4 || rows[3].Why != "ended because another candidate passed" || x.Choose() != 3 {
		t.Errorf("first: %+v", rows)
	}
}

// TestLint: it runs only where it decides, and what it says is kept.
func TestLint(t *testing.T) {
	for _, c := range []struct {
		all  []*fake
		want string
	}{{failing(-1, -1, 2), "passed"}, {failing(-1, 1, 2), ""}} {
		k := &told{}
		x := k.contest(api.BestOf{Of: 3}, c.all...)
		x.Run(t.Context())
		if err := x.Lint(t.Context(), func(context.Context) (string, error) { return "make lint", nil }); err != nil {
			t.Fatal(err)
		}
		if rows := x.Rows(); rows[0].Lint != c.want || rows[2].Lint != "" {
			t.Errorf("%+v", rows)
		}
	}
}

// TestCompare: what most candidates do wins against what one does alone, and candidates without tests are not compared.
func TestCompare(t *testing.T) {
	pass := func(tests bool, loses ...int) *fake { return &fake{failing: -1, tests: tests, loses: loses} }
	for _, c := range []struct {
		name            string
		all             []*fake
		best            int
		compared, agree []int
		fails           []int
	}{
		{"no tests", []*fake{pass(false), pass(false)}, 1, []int{0, 0}, []int{0, 0}, []int{0, 0}},
		{"a liar fails the tests of others", []*fake{pass(false, 2, 3), pass(true), pass(true)}, 2, []int{2, 2, 2}, []int{0, 1, 1}, []int{2, 0, 0}},
		{"a liar with tests", []*fake{pass(true, 2, 3), pass(true, 1), pass(true, 1)}, 2, []int{2, 2, 2}, []int{0, 1, 1}, []int{2, 1, 1}},
		{"a liar alone with one", []*fake{pass(false, 2), pass(true)}, 2, []int{1, 1}, []int{0, 0}, []int{1, 0}},
		{"all agree: the order stays", []*fake{pass(true), pass(true), pass(false)}, 1, []int{2, 2, 2}, []int{2, 2, 2}, []int{0, 0, 0}},
		{"one that did not pass is not asked", []*fake{{failing: 1, tests: true}, pass(true), pass(false, 1)}, 2, []int{0, 1, 1}, []int{0, 1, 1}, []int{0, 0, 0}},
	} {
		k := &told{}
		x := k.contest(api.BestOf{Of: len(c.all)}, c.all...)
		x.Run(t.Context())
		if err := x.Compare(t.Context(), func() bool { return true }); err != nil {
			t.Fatal(err)
		}
		n := x.Choose()
		var compared, agree, fails []int
		for _, r := range x.Rows() {
			compared, agree, fails = append(compared, r.Compared), append(agree, r.Agrees), append(fails, r.Fails)
		}
		if n != c.best || !slices.Equal(compared, c.compared) || !slices.Equal(agree, c.agree) || !slices.Equal(fails, c.fails) {
			t.Errorf("%s: best %d, compared %v, agree %v, fail %v", c.name, n, compared, agree, fails)
		}
	}
	// The number and the time are bounded.
	many := []*fake{}
	for range 10 {
		many = append(many, pass(true))
	}
	k := &told{}
	x := k.contest(api.BestOf{Of: 10}, many...)
	x.Run(t.Context())
	if err := x.Compare(t.Context(), func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, f := range many {
		total += f.tried
	}
	if err := x.Compare(t.Context(), func() bool { return false }); err != nil || total != 24 || x.Rows()[0].Compared != 0 {
		t.Errorf("%d tries, %+v, %v", total, x.Rows()[0], err)
	}
}
