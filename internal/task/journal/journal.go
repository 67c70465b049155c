package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

// Config is what a journal is made of. Now may be nil.
type Config struct {
	Rows  store.Runs
	Owner api.OwnerID
	Now   func() time.Time
}

// Journal begins runs and takes them over. It may be used from several goroutines.
type Journal struct{ cfg Config }

// New makes a journal.
func New(cfg Config) *Journal {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Journal{cfg}
}

// now is the time as the store keeps it.
func (j *Journal) now() time.Time { return j.cfg.Now().UTC().Truncate(time.Microsecond) }

// Begin stores a run of this owner. Input is what is needed to continue it, and is stored as JSON.
func (j *Journal) Begin(ctx context.Context, id, kind string, input any) (*Run, error) {
	b, err := rowjson.Marshal(input)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "the input of run %s: %w", id, err)
	}
	row := store.Run{ID: id, Kind: kind, Owner: j.cfg.Owner, Epoch: 1, Input: b, CreatedAt: j.now()}
	if err := j.cfg.Rows.InsertRun(ctx, row); err != nil {
		return nil, err
	}
	return newRun(j, row, nil), nil
}

// Unfinished lists the runs of a kind that belong to other owners.
func (j *Journal) Unfinished(ctx context.Context, kind string) ([]store.Run, error) {
	return j.cfg.Rows.UnfinishedRuns(ctx, kind, j.cfg.Owner)
}

// Take takes a run over from an owner that has ended, which the caller has proof of, with the steps that it
// recorded. KindConflict if it is not that owner's run any more.
func (j *Journal) Take(ctx context.Context, id string, from api.OwnerID) (*Run, error) {
	row, err := j.cfg.Rows.TakeRun(ctx, id, from, j.cfg.Owner, j.now())
	if err != nil {
		return nil, err
	}
	steps, err := j.cfg.Rows.RunSteps(ctx, id)
	if err != nil {
		return nil, err
	}
	return newRun(j, row, steps), nil
}

// Run is one run of this owner, or a part of one. Its methods may be called from several goroutines.
type Run struct {
	j   *Journal // nil if nothing is recorded
	row store.Run
	now func() time.Time // without the pauses of the run

	mu    sync.Mutex
	steps map[string]store.RunStep // recorded before, and not asked for since
	done  int                      // of steps, at first
	used  map[string]bool          // names of this process
	clock time.Time
	live  func() // called once, when the first step is executed
	lives bool
	// prefix begins the names of the steps of a part.
	prefix string
	// earlier counts the events that an earlier owner emitted.
	earlier *Counts
	// damage is why the run cannot be continued.
	damage error
	// stop is shared with its parts.
	stop *stop
}

// stop is how the work of an owner on a run ends before the work does.
type stop struct {
	mu sync.Mutex
	// wanted is true if no step is to begin, and left if another owner is to continue the run.
	wanted, left bool
	// steps counts those that are executed now. idle is called once, when there is none and wanted is true.
	steps int
	idle  func()
}

// begin counts a step that is about to be executed. It returns false if none is to begin.
func (s *stop) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted {
		return false
	}
	s.steps++
	return true
}

// end is the end of a step that began.
func (s *stop) end() {
	s.mu.Lock()
	s.steps--
	idle := s.rest()
	s.mu.Unlock()
	if idle != nil {
		idle()
	}
}

// rest returns what is to be called now that the work may be at rest; nil for nothing. mu is held.
func (s *stop) rest() (idle func()) {
	if s.wanted && s.steps == 0 {
		idle, s.idle, s.left = s.idle, nil, true
	}
	return idle
}

func (s *stop) isWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// None returns a run that records nothing: its steps are executed, each time.
func None(now func() time.Time) *Run { return &Run{now: now, lives: true, stop: &stop{}} }

// Records reports whether the steps of the run are recorded.
func (r *Run) Records() bool { return r.j != nil }

func newRun(j *Journal, row store.Run, steps []store.RunStep) *Run {
	r := &Run{j: j, row: row, now: j.now, steps: map[string]store.RunStep{}, used: map[string]bool{}, clock: row.CreatedAt, stop: &stop{}}
	for _, s := range steps {
		r.steps[s.Name] = s
		if s.Done {
			r.done++
		}
	}
	return r
}

// Part returns a part of the run, with steps and a clock of its own: its steps have names that no step outside of it has,
// and what others do meanwhile does not change what it decides. It is taken at a point that every execution of the work
// passes, and once; a part is not canceled or ended by itself.
func (r *Run) Part(name string) *Run {
	if !r.Records() {
		return None(r.now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &Run{j: r.j, row: r.row, now: r.now, earlier: r.earlier.Of(name), steps: map[string]store.RunStep{}, used: map[string]bool{}, clock: r.clock, prefix: r.prefix + name + "/", stop: r.stop}
	for outer, s := range r.steps {
		if own, mine := strings.CutPrefix(outer, name+"/"); mine {
			p.steps[own] = s
			delete(r.steps, outer)
			if s.Done {
				p.done++
			}
		}
	}
	p.live = r.Start
	return p
}

// Join sets the clock to that of a part which has ended, if that is later: the work waited for it. Every execution joins parts in
// the same order.
func (r *Run) Join(part *Run) {
	if r.Records() {
		r.tick(part.Now())
	}
}

// ID is the run's.
func (r *Run) ID() string { return r.row.ID }

// Epoch counts the owners of the run from 1.
func (r *Run) Epoch() int64 { return r.row.Epoch }

// Paused is how long no owner worked on it.
func (r *Run) Paused() time.Duration { return r.row.Paused }

// Canceled reports whether somebody asked to stop it before it was taken over.
func (r *Run) Canceled() bool { return !r.row.CanceledAt.IsZero() }

// Input reads what the run was begun with.
func (r *Run) Input(into any) error {
	if err := rowjson.Unmarshal(r.row.Input, into); err != nil {
		return api.Errorf(api.KindInternal, "the input of run %s is damaged: %w", r.row.ID, err)
	}
	return nil
}

// Recorded counts the steps that have results from before, and those that were cut.
func (r *Run) Recorded() (done, cut int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.steps {
		if !s.Done {
			cut++
		}
	}
	return r.done, cut
}

// Has reports whether a step has a result from before that nobody has asked for.
func (r *Run) Has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[name].Done
}

// OnStart sets what is called once, before the first step that is executed and not only remembered.
func (r *Run) OnStart(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = f
}

// Start does what the first step that is executed does, if none was.
func (r *Run) Start() {
	r.mu.Lock()
	live := r.live
	r.live, r.lives = nil, true
	r.mu.Unlock()
	if live != nil {
		live()
	}
}

// Remembers reports whether nothing was executed in this process so far: what it does was done before.
func (r *Run) Remembers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lives
}

// Emitted sets what an earlier owner emitted, which [Run.Once] leaves out. It is called before the work begins.
func (r *Run) Emitted(earlier *Counts) { r.earlier = earlier }

// Earlier counts the events of a type that an earlier owner emitted.
func (r *Run) Earlier(t api.EventType) int { return r.earlier.Count(t) }

// Damage is why the run cannot be continued here; nil if it can. The work must end then, without an end of the run.
func (r *Run) Damage() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage == nil && r.Left() {
		r.damage = r.leftError()
	}
	return r.damage
}

// Spoil says that the run cannot be continued.
func (r *Run) Spoil(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.damage = err
}

// Leave ends the work of this owner on the run, which another one continues. It returns the error with which the work ends: that is the
// damage of the run from now on, and no step is recorded any more.
func (r *Run) Leave() error {
	err := r.leftError()
	r.stop.mu.Lock()
	r.stop.wanted, r.stop.left = true, true
	r.stop.mu.Unlock()
	r.Spoil(err)
	return err
}

func (r *Run) leftError() error {
	return &Unrecorded{api.Errorf(api.KindUnavailable, "another daemon continues run %s", r.row.ID)}
}

// Left reports whether another owner is to continue the run.
func (r *Run) Left() bool {
	r.stop.mu.Lock()
	defer r.stop.mu.Unlock()
	return r.stop.left
}

// Rest has the run and its parts begin no step any more: one that would is left, see [Run.Leave]. idle is called once, when no step is executed, which may be
// now; the run is left then. A step that is executed is recorded, unless its context ends before it does.
func (r *Run) Rest(idle func()) {
	r.stop.mu.Lock()
	r.stop.wanted, r.stop.idle = true, idle
	idle = r.stop.rest()
	r.stop.mu.Unlock()
	if idle != nil {
		idle()
	}
}

// Stay takes Rest back, if the run is not left yet. It reports whether the run stays.
func (r *Run) Stay() bool {
	r.stop.mu.Lock()
	defer r.stop.mu.Unlock()
	if !r.stop.left {
		r.stop.wanted, r.stop.idle = false, nil
	}
	return !r.stop.left
}

// Once returns what emits the events of a loop: those that were emitted before are left out.
func (r *Run) Once(to loop.Emitter) loop.Emitter {
	if !r.Records() {
		return to
	}
	return onceEmitter{to, r.earlier.counts(), r}
}

// Now is the time of the run's clock: that of the last begin or end of a step. It is the current time if nothing is recorded.
func (r *Run) Now() time.Time {
	if !r.Records() {
		return r.now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

// tick sets the clock to a recorded time, or to the current one.
func (r *Run) tick(to time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to.IsZero() {
		to = r.now().Add(-r.row.Paused)
	}
	if to.After(r.clock) {
		r.clock = to
	}
	return r.clock
}

// Cancel stores that the run is to be stopped, so that the next owner does not continue it.
func (r *Run) Cancel(ctx context.Context) error {
	return r.j.cfg.Rows.CancelRun(ctx, r.row.ID, r.j.cfg.Owner, r.j.now())
}

// Rewind removes the record of a step, and of all that began after it, so that they are done again: what they made is lost. It is for a run
// that was taken over and of which nothing was asked. A step that is not recorded removes nothing. KindConflict, and no change, if keep would be removed.
func (r *Run) Rewind(ctx context.Context, step, keep string) error {
	if err := r.j.cfg.Rows.RewindRun(ctx, r.row.ID, r.j.cfg.Owner, step, keep); err != nil {
		return err
	}
	steps, err := r.j.cfg.Rows.RunSteps(ctx, r.row.ID)
	if err != nil {
		return err
	}
	left := newRun(r.j, r.row, steps)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps, r.done = left.steps, left.done
	return nil
}

// End ends the run, once, with what belongs to its end. A second call, by whomever, is KindConflict.
func (r *Run) End(ctx context.Context, end store.RunEnd) (event int64, err error) {
	if end.At.IsZero() {
		end.At = r.j.now()
	}
	return r.j.cfg.Rows.EndRun(ctx, r.row.ID, r.j.cfg.Owner, end)
}

// Try is one execution of a step.
type Try struct {
	N int // from 1
	// Cut is true if an earlier try began and nobody knows how it ended.
	Cut bool
}

// outcome is how a step is recorded.
type outcome[T any] struct {
	Value T          `json:"value"`
	Error *api.Error `json:"error,omitempty"`
}

// flat is an error without its chain, as it is recorded.
func flat(err error) *api.Error {
	if err == nil {
		return nil
	}
	return &api.Error{Kind: api.KindOf(err), Message: err.Error(), Hint: api.HintOf(err), RetryAfterMS: api.RetryAfterOf(err).Milliseconds()}
}

// Digest is a digest of what a step is asked.
func Digest(asked any) []byte {
	b, err := rowjson.Marshal(asked)
	if err != nil {
		b = []byte(err.Error())
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// Do executes a step, or returns what it returned before: its value and its error. The name must not be
// used twice by one process. Asked is a digest; a recorded step that was asked something else is
// KindConflict.
//
// An error of the journal itself is an [Unrecorded] and the damage of the run: the work must end, and the step is not recorded.
func Do[T any](ctx context.Context, r *Run, name string, asked []byte, do func(context.Context, Try) (T, error)) (v T, err error) {
	if !r.Records() {
		return do(ctx, Try{N: 1})
	}
	defer func() {
		var u *Unrecorded
		if errors.As(err, &u) {
			r.Spoil(err)
		}
	}()
	if !r.Has(name) {
		if !r.stop.begin() {
			return v, r.Leave()
		}
		defer r.stop.end()
	}
	was, err := r.enter(name, asked)
	if err != nil {
		return v, err
	}
	if was.Done {
		var o outcome[T]
		if err := rowjson.Unmarshal(was.Result, &o); err != nil {
			return v, &Unrecorded{api.Errorf(api.KindInternal, "step %q of run %s cannot be read: %w", name, r.row.ID, err)}
		}
		r.tick(was.StartedAt)
		r.tick(was.EndedAt)
		if o.Error != nil {
			return o.Value, o.Error
		}
		return o.Value, nil
	}
	if err := ctx.Err(); err != nil {
		return v, err
	}
	// What has begun is stored, also if the context ends now. Until then the work waits for a database that cannot be reached.
	keep := store.Waiting(context.WithoutCancel(ctx), ctx)
	n, err := r.j.cfg.Rows.BeginStep(keep, r.row.ID, r.j.cfg.Owner, store.RunStep{Name: r.prefix + name, Asked: asked, StartedAt: r.tick(time.Time{})})
	if err != nil {
		return v, &Unrecorded{err}
	}
	v, err = do(ctx, Try{N: n, Cut: n > 1})
	if ctx.Err() != nil && r.stop.isWanted() {
		return v, r.Leave() // cut, whatever it returned
	}
	var unrecorded *Unrecorded
	if err != nil && ctx.Err() != nil || errors.As(err, &unrecorded) {
		return v, err // cut, or one that it consists of is not recorded
	}
	b, jerr := rowjson.Marshal(outcome[T]{v, flat(err)})
	if jerr != nil {
		return v, &Unrecorded{api.Errorf(api.KindInternal, "step %q of run %s: %w", name, r.row.ID, jerr)}
	}
	if jerr := r.j.cfg.Rows.EndStep(keep, r.row.ID, r.j.cfg.Owner, store.RunStep{Name: r.prefix + name, Result: b, EndedAt: r.tick(time.Time{})}); jerr != nil {
		return v, &Unrecorded{jerr}
	}
	return v, err
}

// enter returns what is recorded of a step.
func (r *Run) enter(name string, asked []byte) (store.RunStep, error) {
	r.mu.Lock()
	if r.used[name] {
		r.mu.Unlock()
		return store.RunStep{}, api.Errorf(api.KindInternal, "step %q of run %s was done twice", name, r.row.ID)
	}
	r.used[name] = true
	was, known := r.steps[name]
	delete(r.steps, name)
	r.mu.Unlock()
	if !was.Done {
		r.Start()
	}
	if known && string(was.Asked) != string(asked) {
		return was, &Unrecorded{api.Errorf(api.KindConflict, "step %q of run %s was asked something else when it was recorded", name, r.row.ID).
			WithHint("Another build of Hortus may have recorded it. Run the request again.")}
	}
	return was, nil
}

// Unrecorded is an error of the journal: the work cannot continue, and must not be ended as if its step had
// failed.
type Unrecorded struct{ err error }

// Error implements error.
func (u *Unrecorded) Error() string { return "the journal of the run: " + u.err.Error() }

// Unwrap implements errors.Wrapper.
func (u *Unrecorded) Unwrap() error { return u.err }

// End is what becomes of a run; see [Run.End].
type End = store.RunEnd
