package setup

import (
	"context"
	"errors"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// flight is one installation that others wait for.
type flight struct {
	done chan struct{}
	// err is set before done is closed; the layer is found by its key.
	err error
}

// errNone is what the build of a layer returns that is only looked for.
var errNone = errors.New("there is no layer")

// layerKey names the layer of a setup in the store.
func layerKey(key string) string { return "setup 2 " + key }

// find returns the layer of a job's key; "" if there is none.
func (p *Preparer) find(ctx context.Context, j *job) (repo.Layer, func(), error) {
	l, release, err := p.cfg.Sandboxes.Layer(ctx, layerKey(j.key), func(context.Context, string) error { return errNone })
	if errors.Is(err, errNone) {
		return "", nil, nil
	}
	if err != nil {
		return l, release, err
	}
	// What was damaged on the disk must not decide a gate.
	if err := p.cfg.Sandboxes.Verified(ctx, l); err != nil {
		release()
		if api.KindOf(err) != api.KindNotFound {
			return "", nil, err
		}
		note(ctx, j.q, "what was installed is damaged on the disk, and is installed again", nil)
		return "", nil, nil
	}
	return l, release, nil
}

// once returns the layer of a job: one that is there, or one that is made now by it or by another job.
func (p *Preparer) once(ctx context.Context, j *job) (repo.Layer, func(), error) {
	waited := false
	for {
		l, release, err := p.find(ctx, j)
		if err != nil || l != "" {
			if err == nil {
				note(ctx, j.q, "reused: "+titles(j.plan), nil)
			}
			return l, release, err
		}
		f, mine := p.enter(j.key)
		if mine {
			l, release, err := j.install(ctx)
			if f.err = err; ctx.Err() != nil {
				// Its end says nothing about the setup.
				f.err = nil
			}
			p.leave(j.key, f)
			return l, release, err
		}
		if !waited {
			waited = true
			j.q.Emit(ctx, api.RepoStepEvent{Step: step, Detail: "waits for another task with the same dependencies"})
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
		if f.err != nil {
			note(ctx, j.q, "in another task", f.err)
			return "", nil, f.err
		}
	}
}

// enter returns the flight of a key, and whether the caller has to fly.
func (p *Preparer) enter(key string) (f *flight, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f = p.flights[key]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	p.flights[key] = f
	return f, true
}

func (p *Preparer) leave(key string, f *flight) {
	p.mu.Lock()
	delete(p.flights, key)
	p.mu.Unlock()
	close(f.done)
}
