package density

import (
	"context"
	"errors"
	"time"

	"hortus.dev/api"
)

// admitted is the maximum wait for a batch of children. One that is not admitted in time was the last.
const admitted = time.Minute

// Forker makes sandboxes.
type Forker interface {
	Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error)
}

// Sandboxes measures and destroys sandboxes.
type Sandboxes interface {
	Stats(ctx context.Context, id api.SandboxID) (api.Stats, error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
}

// Config is what Fill needs. All fields are required, apart from Fork.
type Config struct {
	Forker    Forker
	Sandboxes Sandboxes
	Parent    api.SandboxID
	// Fork is what every fork requests; its Count is set.
	Fork api.ForkSandbox
	// Most is the maximum number of children, and Batch that of one fork.
	Most, Batch int
	// Room returns why the host has no memory for so many more children; "" if it has.
	Room func(count int) string
	// Command and Write are what each child does when all are there.
	Command, Write func(ctx context.Context, id api.SandboxID) error
	// Step learns how many children there are.
	Step func(done int)
}

// Acts are what all children did.
type Acts struct {
	Times  []time.Duration // of those that succeeded
	Failed int
	First  error // of those that failed
}

// Result is what Fill found.
type Result struct {
	Children int
	// Why is why there are no more of them; "" if that is Most.
	Why string
	// Made is the time to make each, its share of that of its batch, if all of that were made.
	Made            []time.Duration
	Commands, Write Acts
	// Own and Shared are the means of a child when all have done this, in bytes; Unknown is
	// true if some could not be measured. Together counts what is shared once.
	Own, Shared float64
	Unknown     bool
	Together    api.MemoryUse
}

// Fill makes children until there is no memory for more, none is admitted, one fails, or there are
// Most, has each of them act, measures them and destroys them. An error is one of ctx, or of a child
// that could not be destroyed.
func Fill(ctx context.Context, cfg Config) (r Result, err error) {
	var ids []api.SandboxID
	defer func() {
		for _, id := range ids {
			_, _, kerr := cfg.Sandboxes.Kill(context.WithoutCancel(ctx), id)
			err = errors.Join(err, kerr)
		}
	}()
	for r.Why == "" && len(ids) < cfg.Most {
		cfg.Step(len(ids))
		count := min(cfg.Batch, cfg.Most-len(ids))
		if r.Why = cfg.Room(count); r.Why != "" {
			break
		}
		made, took, ferr := batch(ctx, cfg, count)
		ids = append(ids, made...)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if ferr != nil { // its time is that of a wait
			r.Why = ferr.Error()
			continue
		}
		for range made {
			r.Made = append(r.Made, took/time.Duration(count))
		}
	}
	r.Children = len(ids)
	cfg.Step(len(ids))
	if r.Commands, err = act(ctx, ids, cfg.Command); err != nil {
		return r, err
	}
	if r.Write, err = act(ctx, ids, cfg.Write); err != nil {
		return r, err
	}
	return r, r.measure(ctx, cfg.Sandboxes, ids)
}

// batch makes children. Some may exist also after an error.
func batch(ctx context.Context, cfg Config, count int) (ids []api.SandboxID, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, admitted)
	defer cancel()
	start := time.Now()
	req := cfg.Fork
	req.Count = count
	f, err := cfg.Forker.Fork(ctx, cfg.Parent, req)
	took = time.Since(start)
	for _, c := range f.Children {
		if c.Sandbox != nil {
			ids = append(ids, c.Sandbox.ID)
		} else if err == nil && c.Error != nil {
			err = c.Error
		}
	}
	return ids, took, err
}

// act has each child do something, one after another.
func act(ctx context.Context, ids []api.SandboxID, do func(context.Context, api.SandboxID) error) (a Acts, err error) {
	for _, id := range ids {
		start := time.Now()
		err := do(ctx, id)
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if err == nil {
			a.Times = append(a.Times, time.Since(start))
			continue
		}
		a.Failed++
		if a.First == nil {
			a.First = err
		}
	}
	return a, nil
}

// measure reads what the children use. The parent holds what they share with it, so that it is not
// counted here.
func (r *Result) measure(ctx context.Context, s Sandboxes, ids []api.SandboxID) error {
	all := map[api.SandboxID]api.Stats{}
	for _, id := range ids {
		st, err := s.Stats(ctx, id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Unknown = true // it has ended, and its acts have failed
			continue
		}
		r.Unknown = r.Unknown || st.MemoryOwnBytes < 0 || st.MemorySharedBytes < 0
		all[id] = st
		r.Own += float64(max(st.MemoryOwnBytes, 0))
		r.Shared += float64(max(st.MemorySharedBytes, 0))
	}
	if n := float64(len(all)); n > 0 {
		r.Own, r.Shared = r.Own/n, r.Shared/n
	}
	r.Together = api.MemoryOf(all)
	return nil
}
