package check

import (
	"context"
	"errors"

	"hortus.dev/api"
)

// restored pauses the sandbox to disk, resumes it, and runs the attacks again.
func (r *runner) restored(ctx context.Context) {
	_, err := r.sandbox.sandbox.PauseToDisk(ctx)
	if api.KindOf(err) == api.KindUnsupported {
		r.skip(Restored, NotApplicable, "the backend cannot save memory: "+err.Error())
		return
	}
	if err == nil {
		_, err = r.sandbox.sandbox.Resume(ctx)
	}
	if err == nil {
		err = r.sandbox.alive(ctx)
	}
	if err != nil {
		r.skip(Restored, NotTested, err.Error())
		return
	}
	r.phase(ctx, Restored, r.sandbox)
}

// forked runs the attacks in a fork. Where memory cannot be forked, the child has the files of
// its parent and a probe of its own.
func (r *runner) forked(ctx context.Context) {
	b, err := r.fork(ctx)
	if api.KindOf(err) == api.KindUnsupported {
		r.skip(Forked, NotApplicable, "the backend cannot fork: "+err.Error())
		return
	}
	if err != nil {
		r.skip(Forked, NotTested, err.Error())
		return
	}
	r.phase(ctx, Forked, b)
}

func (r *runner) fork(ctx context.Context) (*probeSandbox, error) {
	res, err := r.sandbox.sandbox.Fork(ctx, api.ForkSandbox{Count: 1})
	if err != nil {
		return nil, err
	}
	if len(res.Children) != 1 || res.Children[0].Sandbox == nil {
		err := errors.New("the fork has no child")
		if len(res.Children) == 1 && res.Children[0].Error != nil {
			err = res.Children[0].Error
		}
		return nil, err
	}
	sb, err := r.cfg.Client.Sandboxes.Get(ctx, string(res.Children[0].Sandbox.ID))
	if err != nil {
		return nil, err
	}
	b := &probeSandbox{sandbox: sb, port: r.sandbox.port, timeout: r.cfg.Timeout}
	r.sandboxes = append(r.sandboxes, b)
	if res.Kind != api.SnapshotMemory {
		return b, b.start(ctx, r.cfg.Probe)
	}
	return b, b.alive(ctx)
}

// adopted has another daemon take over, and runs the attacks again.
func (r *runner) adopted(ctx context.Context) {
	if r.cfg.Restart == nil {
		r.skip(Adopted, NotApplicable, "the daemon is not restarted here; Hortus's own tests do it")
		return
	}
	err := r.cfg.Restart(ctx)
	if err == nil {
		err = errors.Join(r.sandbox.alive(ctx), r.other.alive(ctx))
	}
	if err != nil {
		r.skip(Adopted, NotTested, err.Error())
		return
	}
	r.phase(ctx, Adopted, r.sandbox)
}
