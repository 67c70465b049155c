package life_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/life"
)

var update = flag.Bool("update", false, "write the table into docs/lifecycle.md")

const (
	page  = "../../../docs/lifecycle.md"
	begin = "<!-- begin: table of states and events, written by go test ./internal/sandbox/life -update -->\n"
	end   = "<!-- end -->\n"
)

// TestTable walks every pair of a state and an event.
func TestTable(t *testing.T) {
	reached := map[life.State]bool{life.Queued: true, life.Starting: true, life.Restoring: true, life.Running: true, life.Paused: true}
	for s := life.State(0); s <= life.Lost; s++ {
		for e := life.Event(0); e <= life.Lose; e++ {
			step := life.Next(s, e)
			name := s.String() + ", " + e.String()
			if step.Answer == life.Go {
				reached[step.To] = true
			}
			if s.Final() && (step.Answer == life.Go || step.Answer == life.Wait) {
				t.Errorf("%s: a final state answers %v", name, step)
			}
			if step.Answer == life.Wait && !s.Busy() {
				t.Errorf("%s: waits in a state in which nothing is under way", name)
			}
			finishes, removes := count(step, life.Finish), count(step, life.Remove)
			if final := step.Answer == life.Go && step.To.Final(); (finishes == 1 && removes == 1) != final || finishes > 1 || removes > 1 {
				t.Errorf("%s: goes to %s with %v", name, step.To, step.Do)
			}
		}
		// Nothing is stuck: from every state that is not final a kill, or the end of the
		// work under way, leads on.
		if kill := life.Next(s, life.Kill); !s.Final() && kill.Answer == life.Refuse && !s.Busy() {
			t.Errorf("%s: a kill is refused", s)
		}
		if exit := life.Next(s, life.Exit); exit.Answer == life.Refuse && s != life.Queued && s != life.Starting && s != life.Restoring {
			t.Errorf("%s: the end of the guest is refused", s)
		}
	}
	for s := life.State(0); s <= life.Lost; s++ {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
	}
}

func count(s life.Step, e life.Effect) (n int) {
	for _, x := range s.Do {
		if x == e {
			n++
		}
	}
	return n
}

// TestPage holds docs/lifecycle.md to the table.
func TestPage(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	if want := before + begin + table() + end + after; want != string(b) {
		if !*update {
			t.Fatalf("%s is not current: go test ./internal/sandbox/life -update", page)
		}
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// table is the table as text: a line for each pair that is not refused.
func table() string {
	var b strings.Builder
	b.WriteString("| state | event | next state | effects, in order |\n|---|---|---|---|\n")
	for s := life.State(0); s <= life.Lost; s++ {
		for e := life.Event(0); e <= life.Lose; e++ {
			step := life.Next(s, e)
			var next string
			switch step.Answer {
			case life.Refuse:
				continue
			case life.Go:
				next = step.To.String()
			case life.Ignore:
				next = "(unchanged)"
			case life.Wait:
				next = "(waits, then again)"
			}
			var do []string
			for _, x := range step.Do {
				do = append(do, x.String())
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s, e, next, strings.Join(do, ", "))
		}
	}
	return b.String()
}

// rows notes what is stored, slowly enough that stores meet.
type rows struct {
	mu     sync.Mutex
	last   api.Sandbox
	busy   atomic.Int32
	meets  atomic.Int32
	stored int
}

func (r *rows) UpdateSandbox(_ context.Context, s api.Sandbox) error {
	if r.busy.Add(1) > 1 {
		r.meets.Add(1)
	}
	defer r.busy.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = s
	r.stored++
	return nil
}

// TestRowsInOrder: rows are stored one at a time and the last one counts, however many
// change it.
func TestRowsInOrder(t *testing.T) {
	r := &rows{}
	s := life.New(r, time.Now, api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning}, life.Running)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			s.Fire(life.Change, func(row *api.Sandbox) { row.MemoryKills++ })
			if err := s.Store(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.meets.Load() != 0 || r.last.MemoryKills != 50 {
		t.Errorf("%d writes met; stored %d of 50", r.meets.Load(), r.last.MemoryKills)
	}
	if n := r.stored; n > 50 {
		t.Errorf("%d writes", n)
	}
	before := r.stored
	if err := s.Store(t.Context()); err != nil || r.stored != before {
		t.Errorf("a row that is stored was stored again: %v", err)
	}
}

// TestReason: the first reason of an end counts.
func TestReason(t *testing.T) {
	s := life.New(&rows{}, time.Now, api.Sandbox{State: api.SandboxRunning}, life.Running)
	s.End(life.Kill, "first")
	s.End(life.Exit, "second")
	if got := s.Reason(); got != "first" {
		t.Errorf("reason %q", got)
	}
}
