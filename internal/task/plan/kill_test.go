package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/internal/store"
	"hortus.dev/test/tier"
)

// dying are the rows of a daemon that is dead after some of its writes: nothing of what it does after that is stored.
type dying struct {
	store.Plans
	mu   sync.Mutex
	left int
	dead chan struct{}
}

var errDead = errors.New("the daemon is dead")

func (d *dying) UpdatePlan(ctx context.Context, owner api.OwnerID, p store.Plan, items ...store.PlanItem) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return errDead
	}
	if err := d.Plans.UpdatePlan(ctx, owner, p, items...); err != nil {
		return err
	}
	if d.left--; d.left == 0 {
		close(d.dead)
	}
	return nil
}

// TestKilledAtEveryWrite: a daemon dies after each write of a plan in turn, with a conflict and an item that fails once. The next one ends
// in the same files, and repeats no completed item.
func TestKilledAtEveryWrite(t *testing.T) {
	build := func(t *testing.T) (*world, []words.Item) {
		w := newWorld(t, map[string]string{"list": "one\ntwo\nthree\n", "README": "one\n"})
		w.tasks.agents["a"] = func(context.Context, job) (map[string]string, error) {
			return map[string]string{"list": "one\nTWO\nthree\n", "a.txt": "a\n"}, nil
		}
		w.tasks.agents["b"] = func(_ context.Context, j job) (map[string]string, error) {
			if j.create.Repo.Item.Start == "" {
				// It has not seen the change of a, whichever of the two is merged first.
				return map[string]string{"list": "one\ntwo\nthree\nfour\n", "b.txt": "b\n"}, nil
			}
			return map[string]string{"list": "one\nTWO\nthree\nfour\n"}, nil
		}
		return w, []words.Item{adds("a"), adds("b"), adds("c", "a"), adds("d", "b", "c")}
	}
	want := map[string]string{"list": "one\nTWO\nthree\nfour\n", "README": "one\n", "a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n", "d.txt": "d\n"}
	gone := func(api.OwnerID) bool { return true }
	for n := 1; ; n += tier.Count(6, 1) {
		died := false
		t.Run(fmt.Sprint("after write ", n), func(t *testing.T) {
			w, items := build(t)
			rows := &dying{Plans: w.db, left: n, dead: make(chan struct{})}
			s := w.daemon(rows)
			id := w.create(s, items, nil).ID
			ctx, stop := context.WithCancel(t.Context())
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				select {
				case <-rows.dead:
					stop()
				case <-ctx.Done():
				}
			}()
			for e := range w.log.Follow(ctx, api.Stream{Kind: words.Stream, ID: string(id)}, 0) {
				if e.Type == words.EventFinished {
					break
				}
			}
			stop()
			<-watched
			select {
			case <-rows.dead:
				died = true
			default:
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			next := w.daemon(w.db)
			if _, err := next.Recover(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			p := w.done(next, id)
			if p.Outcome != api.OutcomeVerified || !maps.Equal(w.tree(p.Head), want) {
				t.Fatalf("%s: %s: %s: %v", p.Outcome, p.Why, states(p), w.tree(p.Head))
			}
			r, err := w.git.Find(w.source)
			if err != nil {
				t.Fatal(err)
			}
			if at, err := r.Resolve(t.Context(), p.Branch); err != nil || at.Hash != p.Head {
				t.Errorf("the branch is at %s, %v; want %s", at.Hash, err, p.Head)
			}
			// What a watcher sees is what is stored: each item's end, and that of the plan, once.
			seen := map[api.EventType]int{}
			events, err := w.db.ReadEvents(t.Context(), api.Stream{Kind: words.Stream, ID: string(id)}, 0, 1000)
			for _, e := range events {
				var item words.ItemEvent
				if e.Type != words.EventItem || json.Unmarshal(e.Data, &item) == nil && item.State == words.Completed {
					seen[e.Type]++
				}
			}
			if err != nil || seen[words.EventItem] != 4 || seen[words.EventFinished] != 1 {
				t.Errorf("events: %v, %v", seen, err)
			}
			tries := 0
			for _, it := range p.Items {
				tries += len(it.Tries)
			}
			if w.tasks.starts > 5 || tries > 5 {
				t.Errorf("%d tasks, %d tries: an item was repeated", w.tasks.starts, tries)
			}
		})
		if !died || t.Failed() {
			if n < 15 {
				t.Errorf("the plan had only %d writes", n)
			}
			return
		}
	}
}
