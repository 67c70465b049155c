package plan_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/plan"
)

// shelf is an archive of commits in memory. It implements plan.Archive.
type shelf struct {
	dir string

	mu    sync.Mutex
	fails error
	packs map[string][]byte
}

func (a *shelf) Put(_ context.Context, label string, write func(io.Writer) error) (string, error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails != nil {
		return "", a.fails
	}
	if a.packs == nil {
		a.packs = map[string][]byte{}
	}
	a.packs[label] = b.Bytes()
	return label, nil
}

func (a *shelf) Get(_ context.Context, ref, _ string, read func(*os.File) error) error {
	a.mu.Lock()
	b := a.packs[ref]
	a.mu.Unlock()
	name := filepath.Join(a.dir, "pack")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}

func (a *shelf) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails = err
}

// drain has the plans of an owner continue at another one. It implements plan.Elsewhere.
type drain struct {
	db    *database.DB
	me    api.OwnerID
	given chan []api.TaskID

	mu   sync.Mutex
	stay error
	back []bool
}

func (d *drain) Leaves(context.Context, string, api.CreateTask) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stay
}

func (d *drain) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stay = nil
}

// HandOver gives the plan to an owner of its own, as whose heir the next daemon of a test takes it over.
func (d *drain) HandOver(ctx context.Context, p words.Plan, tasks []api.TaskID, back bool) error {
	to := api.NewOwnerID()
	if err := d.db.InsertOwner(ctx, store.Owner{ID: to, StartedAt: time.Now()}); err != nil {
		return err
	}
	if err := d.db.HandOver(ctx, store.Work{Plan: p.ID}, d.me, to); err != nil {
		return err
	}
	d.mu.Lock()
	d.back = append(d.back, back)
	d.mu.Unlock()
	d.given <- tasks
	return nil
}

// draining begins a service whose plans go to other nodes once drain.begin is called.
func draining(w *world) (*plan.Service, *drain) {
	w.archive = &shelf{dir: w.t.TempDir()}
	d := &drain{db: w.db, stay: errors.New("it does not drain"), given: make(chan []api.TaskID, 9)}
	s, me := w.node(w.db, func(api.OwnerID) plan.Elsewhere { return d })
	d.me = me
	return s, d
}

// next begins another service, which takes over what was handed over.
func next(w *world, former *plan.Service) *plan.Service {
	w.t.Helper()
	s := w.daemon(w.db)
	gone := func(api.OwnerID) bool { return true }
	if _, err := s.Bring(w.t.Context(), gone); err != nil {
		w.t.Fatal(err)
	}
	if n, err := s.Recover(w.t.Context(), gone); n != 1 || err != nil {
		w.t.Fatal(n, err)
	}
	return s
}

// staying is what a service says of its only plan.
func staying(t *testing.T, s *plan.Service) plan.Staying {
	t.Helper()
	all, err := s.Staying(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

// TestHandOver: a plan of three items, of which one is done and one works, goes to another node when that has stopped, and ends there. Nothing is done twice.
func TestHandOver(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	s, d := draining(w)
	works, goOn := make(chan struct{}), make(chan struct{})
	var id api.PlanID
	w.tasks.agents["b"] = func(_ context.Context, j job) (map[string]string, error) {
		if j.try == 1 {
			close(works)
			<-goOn
			if err := s.Leaves(id); err != nil {
				return nil, err
			}
			return nil, errStops
		}
		return map[string]string{"b.txt": "b\n"}, nil
	}
	id = w.create(s, []words.Item{adds("a"), adds("b", "a"), adds("c", "b")}, nil).ID
	<-works
	if st := staying(t, s); st.Goes || st.Why != "it does not drain" {
		t.Errorf("before the drain: %+v", st)
	}
	s.HandOver(t.Context())
	if err := s.Leaves(id); api.KindOf(err) != api.KindConflict {
		t.Errorf("before the drain its tasks are told: %v", err)
	}
	d.begin()
	s.HandOver(t.Context())
	w.eventually("its tasks are to stop", func() bool { return s.Leaves(id) == nil })
	if st := staying(t, s); !st.Goes || st.Why != "what runs now (item b)" {
		t.Errorf("while an item works: %+v", st)
	}
	close(goOn)
	if tasks := <-d.given; len(tasks) != 1 {
		t.Errorf("with the plan went the tasks %v", tasks)
	}
	if _, err := s.Pause(t.Context(), "", id); api.KindOf(err) != api.KindUnavailable || api.RetryAfterOf(err) == 0 {
		t.Errorf("a request for a plan on its way: %v", err)
	}
	row, err := w.db.Plan(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if ref, err := plan.Archived(row); ref == "" || err != nil {
		t.Errorf("its commits are not stored: %q, %v", ref, err)
	}
	p := w.done(next(w, s), id)
	if p.Outcome != api.OutcomeVerified {
		t.Fatalf("%s: %s: %s", p.Outcome, p.Why, states(p))
	}
	for _, it := range p.Items {
		if len(it.Tries) != 1 {
			t.Errorf("item %s had %d tries", it.ID, len(it.Tries))
		}
	}
	if w.tasks.tries["a"] != 1 || w.tasks.tries["b"] != 2 || w.tasks.tries["c"] != 1 {
		t.Errorf("the items began %v times", w.tasks.tries)
	}
	if all, err := s.Staying(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the former node says %+v, %v", all, err)
	}
}

// TestHandOverIdle: a plan that waits for a person goes at once.
func TestHandOverIdle(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	s, d := draining(w)
	id := w.create(s, []words.Item{adds("a")}, func(c *words.Create) { c.Approve = true }).ID
	w.until(s, id, "proposed", func(p words.Plan) bool { return p.State == words.Proposed })
	d.begin()
	s.HandOver(t.Context())
	<-d.given
	other := next(w, s)
	if _, err := other.Approve(t.Context(), "", id); err != nil {
		t.Fatal(err)
	}
	if p := w.done(other, id); p.Outcome != api.OutcomeVerified {
		t.Errorf("%s: %s", p.Outcome, p.Why)
	}
}

// TestHandOverWithoutArchive: a plan whose commits cannot be stored says so, and continues where it is; also with a task that has stopped, which continues there, too.
func TestHandOverWithoutArchive(t *testing.T) {
	for _, stops := range []bool{false, true} {
		t.Run(map[bool]string{false: "all ended", true: "one stopped"}[stops], func(t *testing.T) {
			w := newWorld(t, map[string]string{"README": "one\n"})
			s, d := draining(w)
			works, goOn := make(chan struct{}), make(chan struct{})
			w.tasks.agents["b"] = func(_ context.Context, j job) (map[string]string, error) {
				if j.try == 1 {
					close(works)
					<-goOn
					if stops {
						return nil, errStops
					}
				}
				return map[string]string{"b.txt": "b\n"}, nil
			}
			id := w.create(s, []words.Item{adds("a"), adds("b", "a"), adds("c", "b")}, nil).ID
			<-works
			w.archive.(*shelf).fail(errors.New("the archive does not answer"))
			d.begin()
			s.HandOver(t.Context())
			w.eventually("its tasks are to stop", func() bool { return s.Leaves(id) == nil })
			close(goOn)
			from := s
			if stops {
				<-d.given
				if len(d.back) != 1 || !d.back[0] {
					t.Errorf("it goes to another node without its commits: %v", d.back)
				}
				from = next(w, s)
			}
			p := w.done(from, id)
			if p.Outcome != api.OutcomeVerified || len(p.Items[1].Tries) != 1 || w.tasks.tries["c"] != 1 {
				t.Errorf("%s: %s: %s", p.Outcome, p.Why, states(p))
			}
			if !stops && len(d.given) > 0 {
				t.Error("it went to another node without its commits")
			}
		})
	}
}

// TestCancelOnItsWay: a plan that is canceled while one of its tasks has stopped and another one works is canceled where it goes.
func TestCancelOnItsWay(t *testing.T) {
	w := newWorld(t, map[string]string{"README": "one\n"})
	s, d := draining(w)
	var ready sync.WaitGroup
	ready.Add(2)
	goOn := make(chan struct{})
	w.tasks.agents["a"] = func(context.Context, job) (map[string]string, error) {
		ready.Done()
		<-goOn
		return nil, errStops
	}
	w.tasks.agents["b"] = func(ctx context.Context, _ job) (map[string]string, error) {
		ready.Done()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	id := w.create(s, []words.Item{adds("a"), adds("b")}, func(c *words.Create) { c.Parallel = 2 }).ID
	ready.Wait()
	d.begin()
	s.HandOver(t.Context())
	w.eventually("its tasks are to stop", func() bool { return s.Leaves(id) == nil })
	close(goOn)
	w.eventually("one task has stopped", func() bool {
		st := staying(t, s)
		return st.Goes && strings.Contains(st.Why, "item b") && !strings.Contains(st.Why, "item a")
	})
	if _, err := s.Cancel(t.Context(), "", id); api.KindOf(err) != api.KindUnavailable || api.RetryAfterOf(err) == 0 {
		t.Errorf("the cancellation: %v", err)
	}
	<-d.given
	if p := w.done(next(w, s), id); p.Outcome != api.OutcomeCanceled {
		t.Errorf("%s: %s: %s", p.Outcome, p.Why, states(p))
	}
}
