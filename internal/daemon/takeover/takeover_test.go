package takeover

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

type rows func() ([]store.Inherited, error)

func (r rows) InheritOwners(_ context.Context, _ api.OwnerID, lease time.Duration, judges func() bool) ([]store.Inherited, error) {
	all, err := r()
	if err == nil && judges != nil && !judges() {
		all = nil // the database was away meanwhile
	}
	if judges == nil { // nobody is found silent
		if lease < time.Hour {
			return nil, errors.New("a node judges that does not know who ended")
		}
		all = slices.DeleteFunc(slices.Clone(all), func(i store.Inherited) bool { return i.Owner != "given" })
	}
	return all, err
}

// TestLook: steps run in their order, also after one that failed, for what others left; and again as long as something is left. A node that cannot judge takes over only
// what was handed over to it.
func TestLook(t *testing.T) {
	left := []store.Inherited{{Owner: "o1", Node: "n1", Name: "one"}, {Owner: "mine", Node: "n0", Name: "zero"}, {Owner: "o2", Node: "n2"}, {Owner: "old"}}
	var did []string
	judges := true
	step := func(name string, err error) Step {
		return Step{What: name, Do: func(_ context.Context, e Estate) (int, error) {
			did = append(did, name)
			if !e.Gone("o1") || !e.Gone("o2") || e.Gone("mine") || e.Gone("old") || e.Gone("") {
				t.Errorf("%s: %+v", name, e)
			}
			if got := e.Why("o1") + "; " + e.Why("o2"); got != "node one ended, or could not reach the database; its node was removed" {
				t.Error(got)
			}
			return 1, err
		}}
	}
	bad := errors.New("bad")
	taker := &Taker{cfg: Config{
		Rows: rows(func() ([]store.Inherited, error) { return left, nil }), Heir: "me", Judges: func() bool { return judges }, Full: func() bool { return false },
		Started: func(o api.OwnerID) bool { return o == "mine" || o == "old" },
		Steps:   []Step{step("a", bad), step("b", nil)}, Logger: slog.New(slog.DiscardHandler),
	}}
	if judges = false; taker.look(t.Context()) != nil || did != nil {
		t.Error("a node takes over that does not know who ended")
	}
	left = append(left, store.Inherited{Owner: "given", Node: "n3", Name: "three"})
	taker.cfg.Steps = []Step{{What: "given", Do: func(_ context.Context, e Estate) (int, error) {
		if did = append(did, "given"); !e.Gone("given") || e.Gone("o1") {
			t.Errorf("what was handed over: %+v", e)
		}
		return 1, nil
	}}}
	if err := taker.look(t.Context()); err != nil || !slices.Equal(did, []string{"given"}) {
		t.Errorf("what was handed over waits: %q, %v", did, err)
	}
	did, left, taker.cfg.Steps = nil, left[:4], []Step{step("a", bad), step("b", nil)}
	judges, taker.cfg.Rows = true, rows(func() ([]store.Inherited, error) { judges = false; return left, nil })
	if taker.look(t.Context()) != nil || did != nil {
		t.Error("a node takes over that asked before an outage of the database")
	}
	judges, taker.cfg.Rows = true, rows(func() ([]store.Inherited, error) { return left, nil })
	for range 2 {
		if err := taker.look(t.Context()); !errors.Is(err, bad) {
			t.Errorf("the error of a step is lost: %v", err)
		}
	}
	left = []store.Inherited{left[1], left[3]}
	if err := taker.look(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"a", "b", "a", "b"}; !slices.Equal(did, want) {
		t.Errorf("%q, want %q", did, want)
	}
}

// TestFullNodesLookLater: a node without capacity finds another one silent one look later than the others.
func TestFullNodesLookLater(t *testing.T) {
	const lease = 8 * time.Second
	full := false
	var asked leases
	taker := &Taker{cfg: Config{Rows: &asked, Judges: func() bool { return true }, Full: func() bool { return full }, Lease: lease, Logger: slog.New(slog.DiscardHandler)}}
	for _, full = range []bool{false, true} {
		if err := taker.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []time.Duration{lease, lease + time.Second}; !slices.Equal(asked, want) {
		t.Errorf("%v, want %v", asked, want)
	}
}

// leases are those that were asked for.
type leases []time.Duration

func (l *leases) InheritOwners(_ context.Context, _ api.OwnerID, lease time.Duration, _ func() bool) ([]store.Inherited, error) {
	*l = append(*l, lease)
	return nil, nil
}

// TestRun: a database that cannot be reached is asked again, and an heir that has ended asks no more.
func TestRun(t *testing.T) {
	answers := []error{api.Errorf(api.KindUnavailable, "no database"), nil, api.Errorf(api.KindConflict, "ended")}
	taker := &Taker{cfg: Config{Judges: func() bool { return true }, Full: func() bool { return false }, Started: func(api.OwnerID) bool { return false }, Logger: slog.New(slog.DiscardHandler), Rows: rows(func() ([]store.Inherited, error) {
		err := answers[0]
		answers = answers[1:]
		return nil, err
	})}}
	tick := make(chan time.Time, len(answers))
	for range answers {
		tick <- time.Time{}
	}
	taker.run(t.Context(), tick)
	if len(answers) > 0 {
		t.Errorf("%d looks are missing", len(answers))
	}
}
