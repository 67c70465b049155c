package workstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/task/workstream"
)

// rows are claims by account.
type rows map[string][]workstream.Claim

func (r rows) Claims(_ context.Context, account string) ([]workstream.Claim, error) {
	return slices.Clone(r[account]), nil
}

var began = time.Unix(1_700_000_000, 0)

// claim is of somebody who began some seconds after the first one.
func claim(kind, id string, at int, waits bool, touches ...string) workstream.Claim {
	return workstream.Claim{Key: "r", Workstream: api.Workstream{Kind: kind, ID: id, Touches: touches, Waits: waits, Since: began.Add(time.Duration(at) * time.Second)}}
}

// TestEnter: who waits for whom, by policy.
func TestEnter(t *testing.T) {
	other := claim(api.WorkstreamTask, "o", 0, false, "/a.go")
	other.Key = "another repository"
	allows := claim(api.WorkstreamTask, "a", 5, false, "/allowed.go")
	allows.Allows = true
	all := rows{"": {
		allows,
		claim(api.WorkstreamPlan, "p", 1, false, "/a.go", "!/b.go"), claim(api.WorkstreamTask, "t", 2, false, "docs/**"), claim(api.WorkstreamSession, "s", 3, false, "web/**"),
		claim(api.WorkstreamPlan, "w", 4, true, "/w.go"), other,
	}, "bob": {claim(api.WorkstreamTask, "b", 0, false, "**")}}
	for name, test := range map[string]struct {
		claim  workstream.Claim
		policy api.Overlap
		with   string
		enters bool
		extend bool
	}{
		"nobody":                      {claim("task", "x", 9, true, "/b.go"), api.OverlapWait, "", true, false},
		"a plan":                      {claim("task", "x", 9, true, "/*.go"), api.OverlapWait, "plan p, plan w, task a", false, false},
		"a task":                      {claim("plan", "x", 9, true, "docs/a.md"), api.OverlapWait, "task t", false, false},
		"a session":                   {claim("plan", "x", 9, true, "web/a.js"), api.OverlapWait, "session s", false, false},
		"all":                         {claim("plan", "x", 9, true, "**"), api.OverlapWait, "plan p, task t, session s, plan w, task a", false, false},
		"one that waits, later":       {claim("plan", "x", 9, true, "/w.go"), api.OverlapWait, "plan w", false, false},
		"one that waits, earlier":     {claim("plan", "x", 3, true, "/w.go"), api.OverlapWait, "", true, false},
		"one that works, earlier":     {claim("plan", "x", 0, true, "/a.go"), api.OverlapWait, "plan p", false, false},
		"one that allows, later":      {claim("plan", "x", 4, true, "/allowed.go"), api.OverlapWait, "", true, false},
		"one that allows, earlier":    {claim("plan", "x", 6, true, "/allowed.go"), api.OverlapWait, "task a", false, false},
		"itself":                      {claim("plan", "p", 1, true, "/a.go"), api.OverlapWait, "", true, false},
		"another kind with its id":    {claim("task", "p", 1, true, "/a.go"), api.OverlapWait, "plan p", false, false},
		"refuse":                      {claim("task", "x", 9, true, "/a.go"), api.OverlapRefuse, "plan p", false, false},
		"refuse nobody":               {claim("task", "x", 9, true, "/b.go"), api.OverlapRefuse, "", true, false},
		"allow":                       {claim("task", "x", 9, true, "**"), api.OverlapAllow, "plan p, task t, session s, task a", true, false},
		"more files, of one at work":  {claim("plan", "x", 9, false, "/a.go"), api.OverlapWait, "plan p", false, true},
		"more files, of one in queue": {claim("plan", "x", 9, false, "/w.go"), api.OverlapWait, "", true, true},
	} {
		r := workstream.New(workstream.Config{Sources: []workstream.Source{all}})
		enter, calls := r.Enter, 0
		if test.extend {
			enter = r.Extend
		}
		with, entered, err := enter(t.Context(), "", []workstream.Claim{test.claim}, test.policy, func() error { calls++; return nil })
		if refused := test.policy == api.OverlapRefuse && test.with != ""; refused != (api.KindOf(err) == api.KindConflict) || !refused && err != nil || refused && !strings.Contains(err.Error(), test.with) {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(workstream.Names(with), ", "); got != test.with || entered != test.enters || calls == 1 != test.enters {
			t.Errorf("%s: with %q, entered %v, %d calls", name, got, entered, calls)
		}
	}
	broken := errors.New("the row was not stored")
	r := workstream.New(workstream.Config{Sources: []workstream.Source{rows{}}})
	if _, _, err := r.Enter(t.Context(), "", []workstream.Claim{claim("task", "x", 0, true, "**")}, api.OverlapWait, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a row that is not stored: %v", err)
	}
}

// TestNow: the earliest first, of one account and one repository, each with those that it waits for.
func TestNow(t *testing.T) {
	r := workstream.New(workstream.Config{Sources: []workstream.Source{
		rows{"": {claim("plan", "late", 5, true, "**"), claim("plan", "early", 2, true, "a")}, "bob": {claim("plan", "bobs", 0, false, "**")}},
		rows{"": {claim("task", "works", 3, false, "a", "b")}},
	}})
	all, err := r.Now(t.Context(), "", "r")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.Name()+" <- "+strings.Join(c.WaitsFor, ", "))
	}
	if want := []string{"plan early <- task works", "task works <- ", "plan late <- plan early, task works"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if none, err := r.Now(t.Context(), "", "another"); err != nil || len(none) != 0 {
		t.Errorf("another repository: %v, %v", none, err)
	}
}

// TestNobodyWaitsForEver: whatever files they change, and whenever they come and end, no two work at the same time that change the same
// files, and one of them works as long as one is left.
func TestNobodyWaitsForEver(t *testing.T) {
	files := []string{"a", "b", "c", "d", "*", "**", "x/*", "x/y"}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		all := rows{}
		r := workstream.New(workstream.Config{Sources: []workstream.Source{all}})
		const n = 8
		for i := range n {
			c := claim([]string{"plan", "task", "session"}[rnd.IntN(3)], fmt.Sprint(i), rnd.IntN(4), true)
			for range 1 + rnd.IntN(2) {
				c.Touches = append(c.Touches, files[rnd.IntN(len(files))])
			}
			all[""] = append(all[""], c)
		}
		for steps := 0; len(all[""]) > 0; steps++ {
			working := 0
			for _, i := range rnd.Perm(len(all[""])) {
				c := &all[""][i]
				if c.Waits {
					_, _, err := r.Enter(t.Context(), "", []workstream.Claim{*c}, api.OverlapWait, func() error { c.Waits = false; return nil })
					if err != nil {
						t.Fatal(err)
					}
				}
				if !c.Waits {
					working++
				}
			}
			for i, a := range all[""] {
				for _, b := range all[""][:i] {
					if !a.Waits && !b.Waits && workstream.Overlap(a.Touches, b.Touches) {
						t.Fatalf("seed %d: %s and %s work at the same time on %v and %v", seed, a.Name(), b.Name(), a.Touches, b.Touches)
					}
				}
			}
			if working == 0 {
				t.Fatalf("seed %d: %d wait for each other: %+v", seed, len(all[""]), all[""])
			}
			i := slices.IndexFunc(all[""], func(c workstream.Claim) bool { return !c.Waits })
			all[""] = slices.Delete(all[""], i, i+1)
		}
	}
}

// TestChanged: a channel that was taken before somebody ended is closed then.
func TestChanged(t *testing.T) {
	r := workstream.New(workstream.Config{})
	before := r.Changed()
	select {
	case <-before:
		t.Fatal("nobody has ended")
	default:
	}
	r.Released()
	<-before
	select {
	case <-r.Changed():
		t.Fatal("the next one is closed too")
	default:
	}
}

// TestOtherProcesses: of two processes with the same rows one looks while the other one does not, and who waits is woken although nobody ended here.
func TestOtherProcesses(t *testing.T) {
	all := rows{"": {claim("task", "x", 0, true, "a"), claim("task", "y", 1, true, "a")}}
	var mu sync.Mutex
	others := atomic.Bool{}
	open := func() *workstream.Registry {
		return workstream.New(workstream.Config{Sources: []workstream.Source{all}, Others: others.Load, Poll: time.Millisecond,
			Exclusive: func(_ context.Context, account string, do func() error) error {
				if account != "" {
					t.Errorf("for account %q", account)
				}
				mu.Lock()
				defer mu.Unlock()
				return do()
			}})
	}
	var both sync.WaitGroup
	var working atomic.Int32
	for i, r := range []*workstream.Registry{open(), open()} {
		both.Go(func() {
			mu.Lock()
			c := all[""][i]
			mu.Unlock()
			_, entered, err := r.Extend(t.Context(), "", []workstream.Claim{c}, api.OverlapWait, func() error { all[""][i].Waits = false; return nil })
			if err != nil {
				t.Error(err)
			}
			if entered {
				working.Add(1)
			}
		})
	}
	both.Wait()
	if n := working.Load(); n != 1 {
		t.Errorf("%d of them work", n)
	}
	r := open()
	alone := r.Changed()
	others.Store(true)
	<-r.Changed() // the other one ends somewhere else
	<-alone
	broken := errors.New("no database")
	r = workstream.New(workstream.Config{Exclusive: func(context.Context, string, func() error) error { return broken }})
	if _, entered, err := r.Enter(t.Context(), "", []workstream.Claim{claim("task", "x", 0, true, "a")}, api.OverlapWait, func() error { return nil }); entered || !errors.Is(err, broken) {
		t.Errorf("without a database: %v, %v", entered, err)
	}
}
