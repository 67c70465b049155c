package outgoing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hortus.dev/api"
)

// followWait is the maximum time that a change of a secret waits for the policies of sandboxes.
const followWait = 10 * time.Second

// Follower makes the policies of sandboxes follow the bindings of their secrets. All fields are
// required.
type Follower struct {
	// Change changes a sandbox. It waits for other changes of the sandbox.
	Change func(ctx context.Context, id api.SandboxID, edit Edit) (api.Sandbox, error)
	// Spawn calls f in a goroutine that the owner waits for, whose work ends with Context; it
	// returns false if the owner is stopping.
	Spawn   func(f func()) bool
	Context context.Context
	Logger  *slog.Logger
}

// Follow begins to change sandboxes, all secrets of them or those with a name. done is closed when
// all of them were changed or could not be.
func (f Follower) Follow(rows []api.Sandbox, name string) (done <-chan struct{}) {
	var work []func()
	var all sync.WaitGroup
	ended := make(chan struct{})
	for _, row := range rows {
		for _, g := range row.Secrets {
			if g.Revoked || name != "" && g.Name != name {
				continue
			}
			work = append(work, func() { defer all.Done(); f.one(row.ID, g.Name) })
		}
	}
	all.Add(len(work))
	for _, w := range work {
		if !f.Spawn(w) {
			all.Done()
		}
	}
	if len(work) == 0 || !f.Spawn(func() { defer close(ended); all.Wait() }) {
		close(ended)
	}
	return ended
}

func (f Follower) one(id api.SandboxID, name string) {
	_, err := f.Change(f.Context, id, Follow(name))
	// A sandbox that has ended, or a daemon that stops, has no policy to change.
	if kind := api.KindOf(err); err != nil && !errors.Is(err, ErrUnchanged) && kind != api.KindUnavailable && kind != api.KindNotFound && f.Context.Err() == nil {
		f.Logger.Error("the policy of a sandbox does not follow a secret", "sandbox", id, "secret", name, "error", err)
	}
}

// Changed is Follow for the sandboxes of an account that may use a secret. It waits for those that
// can be reached soon.
func (f Follower) Changed(rows []api.Sandbox, account, name string) {
	var its []api.Sandbox
	for _, row := range rows {
		if row.Account == account {
			its = append(its, row)
		}
	}
	late := time.NewTimer(followWait)
	defer late.Stop()
	select {
	case <-f.Follow(its, name):
	case <-late.C:
	}
}
