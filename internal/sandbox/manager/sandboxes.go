package manager

import (
	"context"
	"maps"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/choice"
	"hortus.dev/internal/sandbox/life"
)

// Sandboxes finds the sandboxes, measures, pauses, resumes and ends them.
type Sandboxes struct {
	table     *table
	lifecycle *lifecycle
	pauser    *Pauser
	rows      sandbox.Rows
}

// Get returns a sandbox's row, whether it lives or not.
func (s *Sandboxes) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	if in, ok := s.table.lookup(id); ok {
		return in.Row(), nil
	}
	return s.rows.Sandbox(ctx, id)
}

// Waits returns what a sandbox of this daemon waits for before it can start or be resumed; nil if it does not wait.
func (s *Sandboxes) Waits(id api.SandboxID) *api.WaitingEvent {
	if in, ok := s.table.lookup(id); ok {
		return in.waiting.Load()
	}
	return nil
}

// List returns rows, the newest first: the live ones, or all.
func (s *Sandboxes) List(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return s.rows.ListSandboxes(ctx, all)
}

// Find returns the ID with a unique prefix.
func (s *Sandboxes) Find(ctx context.Context, prefix string) (api.SandboxID, error) {
	return s.rows.FindSandbox(ctx, prefix)
}

// Pause pauses a sandbox in memory; Resume lets it continue. Its deadline still holds.
// Pausing a paused sandbox does nothing.
func (s *Sandboxes) Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	in, err := s.table.here(ctx, id)
	if err != nil {
		return api.Sandbox{}, err
	}
	step, err := s.lifecycle.fire(ctx, in, life.Pause)
	if err != nil || step.Answer == life.Ignore {
		return in.Row(), err
	}
	if err := in.machine.Pause(ctx); err != nil {
		in.Fire(life.PauseFailed, nil)
		return in.Row(), s.pauser.chooser.Advise(ctx, err)
	}
	err = s.lifecycle.done(ctx, in, life.PauseDone)
	return in.Row(), err
}

// Resume lets a paused sandbox continue, from memory or from disk.
func (s *Sandboxes) Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	in, row, err := s.table.find(ctx, id)
	switch {
	case err != nil:
		return api.Sandbox{}, err
	case in != nil:
		err := s.lifecycle.resume(ctx, in)
		return in.Row(), err
	case suspended(row):
		return s.pauser.resumeFromDisk(ctx, row, 0)
	}
	return api.Sandbox{}, ended(row)
}

// SetTTL sets the deadline to ttl from now, also to an earlier time.
func (s *Sandboxes) SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	if ttl <= 0 {
		return api.Sandbox{}, api.Errorf(api.KindInvalid, "time to live of %s is not positive", ttl)
	}
	if _, err := choice.TTL(ttl.Milliseconds()); err != nil {
		return api.Sandbox{}, err
	}
	return s.lifecycle.moveDeadline(ctx, id, func(in *instance) life.Step { return in.SetTTL(ttl) })
}

// Extend moves the deadline to ttl from now, unless it is later already.
func (s *Sandboxes) Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error) {
	if err := choice.NewTTL(ttl); err != nil {
		return api.Sandbox{}, err
	}
	return s.lifecycle.moveDeadline(ctx, id, func(in *instance) life.Step { return in.Extend(ttl) })
}

// Held notes that a sandbox lives only as long as a connection to this daemon: no other
// daemon takes it over.
func (s *Sandboxes) Held(ctx context.Context, id api.SandboxID) error {
	_, err := s.lifecycle.change(ctx, id, func(in *instance) life.Step {
		return in.Fire(life.Change, func(row *api.Sandbox) { row.Held = true })
	})
	return err
}

// Connect resumes a sandbox, from memory or from disk, unless it is running, and reports whether
// it was resumed. A running sandbox lives for at least ttl from now, a resumed one for ttl from
// now. With a ttl of 0 the deadline does not change, or the remaining time counts. Connect waits
// for concurrent changes of the sandbox (a pause, a resume, an end).
//
// Errors: KindUnavailable for a sandbox that has ended, KindNotFound, those of
// Resume.
func (s *Sandboxes) Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (row api.Sandbox, resumed bool, err error) {
	if ttl != 0 {
		if err := choice.NewTTL(ttl); err != nil {
			return row, false, err
		}
	}
	for {
		if err := s.table.awaitStill(ctx, id); err != nil {
			return row, false, err
		}
		in, here := s.table.lookup(id)
		if here {
			row = in.Row()
		} else if row, err = s.rows.Sandbox(ctx, id); err != nil {
			return row, false, err
		}
		before := row.State
		row, resumed, err = s.connect(ctx, row, here, ttl)
		if !passing(err) {
			return row, resumed, err
		}
		// Another caller may have been faster.
		now, gerr := s.Get(ctx, id)
		if gerr != nil || now.State == before && s.table.changing(id) == nil {
			return row, false, err
		}
	}
}

// Wake is Connect for a request to the sandbox itself, whose sender may have no API key: the
// sandbox lives for the default time, limited by the key of its creation.
func (s *Sandboxes) Wake(ctx context.Context, id api.SandboxID) error {
	row, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	ttl := api.DefaultTTL
	if row.MaxTTLMS > 0 {
		ttl = min(ttl, time.Duration(row.MaxTTLMS)*time.Millisecond)
	}
	_, _, err = s.Connect(ctx, id, ttl)
	return err
}

// connect is Connect of a sandbox that was in a state a moment ago, and live here or
// not.
func (s *Sandboxes) connect(ctx context.Context, row api.Sandbox, here bool, ttl time.Duration) (api.Sandbox, bool, error) {
	switch {
	case row.State.Final():
		return row, false, ended(row)
	case row.State == api.SandboxPaused && !here:
		got, err := s.pauser.resumeFromDisk(ctx, row, ttl)
		return got, err == nil, err
	case row.State == api.SandboxPaused:
		got, err := s.Resume(ctx, row.ID)
		if err == nil && ttl > 0 {
			got, err = s.SetTTL(ctx, row.ID, ttl)
		}
		return got, err == nil, err
	case ttl > 0:
		got, err := s.Extend(ctx, row.ID, ttl)
		return got, false, err
	}
	return row, false, nil
}

// Kill ends a sandbox and proves that nothing of it is left. If it has ended already, that is not
// an error. If it is being resumed from disk, Kill waits for that.
func (s *Sandboxes) Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error) {
	for {
		in, row, err := s.table.find(ctx, id)
		switch {
		case err != nil:
			return row, api.Proof{}, err
		case in != nil:
			proof, err := s.lifecycle.end(ctx, in, api.CauseKilled)
			if err == errSuspended {
				continue
			}
			return in.Row(), proof, err
		case row.State.Final():
			return row, api.Proof{How: "the sandbox had already ended"}, nil
		case !suspended(row):
			return row, api.Proof{}, api.Errorf(api.KindConflict, "sandbox %s belongs to another daemon", id)
		}
		row, proof, err := s.pauser.killSuspended(ctx, row)
		if _, taken := s.table.lookup(id); !passing(err) || !taken {
			return row, proof, err
		}
	}
}

// Samples returns the resource usage of a sandbox in this daemon, the oldest first: one sample
// every five seconds, of the last hour. A sandbox that has ended or is paused to disk has none.
func (s *Sandboxes) Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error) {
	in, ok := s.table.lookup(id)
	if !ok {
		_, err := s.rows.Sandbox(ctx, id)
		return nil, err
	}
	return in.samples.list(), nil
}

// Memory returns what the sandboxes here used when they were last measured.
func (s *Sandboxes) Memory() api.MemoryUse {
	s.table.mu.Lock()
	living := slices.Collect(maps.Values(s.table.entries))
	s.table.mu.Unlock()
	all := map[api.SandboxID]api.Stats{}
	for _, in := range living {
		if s, ok := in.samples.last(); ok {
			all[in.id] = s
		}
	}
	return api.MemoryOf(all)
}

// Stats returns what a sandbox uses now.
func (s *Sandboxes) Stats(ctx context.Context, id api.SandboxID) (api.Stats, error) {
	in, err := s.table.here(ctx, id)
	if err != nil {
		return api.Stats{}, err
	}
	switch state := in.State(); state {
	case life.Queued, life.Starting, life.Restoring:
		return api.Stats{}, refused(in)
	}
	return in.machine.Stats(ctx)
}
