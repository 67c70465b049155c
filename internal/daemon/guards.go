package daemon

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/door/access"
	doorhttp "hortus.dev/internal/door/http"
	"hortus.dev/internal/door/key"
	"hortus.dev/internal/door/token"
	"hortus.dev/internal/store"
	"hortus.dev/internal/task/tally"
)

// guards are what doors lead to: the parts of the daemon, each behind package access.
type guards struct {
	keys   *key.Keys
	porter *access.Porter
	rates  *access.Rates
	// tokens are those of sandboxes' data planes.
	tokens *token.Minter

	sandboxes *access.Sandboxes
	tasks     *access.Tasks
	roles     *access.Roles
	events    *access.Events
	system    *access.System
	desk      *access.KeyDesk
}

// openGuards makes the guards. What they guard may be built later: they ask for it
// when they are asked.
func (s *System) openGuards() (err error) {
	g := &s.guards
	if g.tokens, err = token.Open(s.dir.path("tokens.key")); err != nil {
		return err
	}
	g.keys = key.New(key.Config{Rows: rows{s.db}})
	g.rates = access.NewRates(s.cfg.Rates)
	g.porter = access.NewPorter(g.keys, g.rates)
	g.sandboxes = access.NewSandboxes(access.SandboxesConfig{Manager: s.sandboxes, Rows: rows{s.db}, Task: s.db.Task, Rates: g.rates})
	g.tasks = access.NewTasks(engine{s}, g.rates)
	g.roles = access.NewRoles(roles{s.models})
	g.events = access.NewEvents(s.events, g.sandboxes, g.tasks)
	g.system = access.NewSystem(s, g.sandboxes)
	g.desk = access.NewKeyDesk(g.keys)
	return nil
}

// httpDoor makes the door of the HTTP API. It serves the socket and the TCP listener
// alike: whose request it is stands in its context.
func (s *System) httpDoor() *doorhttp.Door {
	g := s.guards
	return doorhttp.New(doorhttp.Config{
		Sandboxes: doorSandboxes{g.sandboxes}, Snapshots: g.sandboxes, Tasks: g.tasks, Roles: g.roles, Events: g.events,
		System: g.system, Upkeep: g.system, Keys: g.desk, Logger: s.log,
		Once: s.once, Provisions: s.provisions, Code: s.code, Tokens: g.tokens,
	})
}

// Stats implements access.Engine.
func (e engine) Stats(ctx context.Context, account string, since time.Time) (api.TaskStats, error) {
	y := tally.New(since)
	err := e.s.db.WalkTasks(ctx, store.TaskFilter{Account: account, Since: since, WithAttempts: true}, func(t api.Task) error {
		y.Add(t)
		return nil
	})
	if err == nil {
		err = e.s.db.WalkTallies(ctx, account, since, y.AddSums)
	}
	return y.Stats(), err
}

// Find implements access.Engine.
func (e engine) Find(ctx context.Context, account, prefix string) (api.TaskID, error) {
	return e.s.db.FindTaskOf(ctx, account, prefix)
}
