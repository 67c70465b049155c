package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
)

// Server is one way of speaking to the daemon under measurement.
type Server struct {
	// Name is the row's: "unix socket", "TCP".
	Name string
	// Open makes a client of it. NPM says instead how a program of the npm package
	// e2b reaches it. Where both are nil there is no such server, and Missing says why.
	Open    func() (*client.Client, error)
	NPM     *NPM
	Missing string
}

// Rows of the measurement "api" begin so; what was done and over which server follow.
const rowAPI = "api, "

// direct is the server that is none: the manager itself.
const direct = "manager"

// deeds are what is measured of a sandbox's life, in turn.
var deeds = [...]string{"create", "run", "kill"}

// life is how long each of the deeds took.
type life [len(deeds)]time.Duration

// speaker lives whole lives of sandboxes over one server.
type speaker struct {
	name  string
	live  func(ctx context.Context) (life, error)
	end   func()
	times [len(deeds)][]time.Duration
}

// servers measures what a create, a command and a kill cost over each server and by the
// manager alone. Lives take turns: each finds a full pool. The clock of a create is
// from the call to its answer, that of a command from its start to its exit, that of a
// kill to its proof.
func (r *run) servers(ctx context.Context) error {
	var servers []Server
	if r.Servers != nil {
		var end func()
		var err error
		if servers, end, err = r.Servers(ctx); err != nil {
			return err
		}
		defer end()
	}
	for i, backend := range r.backends {
		if err := r.serversOf(ctx, servers, backend, i == 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) serversOf(ctx context.Context, servers []Server, backend string, first bool) error {
	all := []*speaker{r.manager(backend)}
	defer func() {
		for _, s := range all {
			s.end()
		}
	}()
	for _, d := range servers {
		switch {
		case d.Open != nil:
			c, err := d.Open()
			if err != nil {
				return err
			}
			all = append(all, overClient(d.Name, c, backend))
		case d.NPM != nil && d.NPM.Isolation == backend:
			s, err := d.NPM.start(ctx, d.Name)
			if err != nil {
				r.report(admin.BenchRow{Name: rowAPI + d.Name, Note: "not measured: " + err.Error()})
				continue
			}
			all = append(all, s)
		case d.NPM != nil:
			if first && !slices.Contains(r.backends, d.NPM.Isolation) {
				r.report(admin.BenchRow{Name: rowAPI + d.Name, Note: "not measured: its sandboxes use " + d.NPM.Isolation + ", which was not requested"})
			}
		case first:
			r.report(admin.BenchRow{Name: rowAPI + d.Name, Note: "not measured: " + d.Missing})
		}
	}
	const warmUp = 3
	n := max(r.n/4, 1)
	for i := range n + warmUp {
		r.step(backend, i, n+warmUp)
		for _, s := range all {
			if err := quiet(ctx, r.Sandboxes); err != nil {
				return err
			}
			took, err := s.live(ctx)
			if err != nil {
				return err
			}
			if i >= warmUp {
				for k := range deeds {
					s.times[k] = append(s.times[k], took[k])
				}
			}
		}
	}
	r.step(backend, n+warmUp, n+warmUp)
	for k, deed := range deeds {
		base := ms(median(all[0].times[k]))
		for _, s := range all {
			row := admin.BenchRow{Name: rowAPI + deed + ", " + s.name, Backend: backend}
			if s != all[0] {
				row.Baseline = rowAPI + deed + ", " + direct
			}
			fill(&row, s.times[k])
			compare(&row, base)
			r.report(row)
		}
	}
	return nil
}

// lived times three deeds on one sandbox. After an error nothing is left.
func lived[T any](create func() (T, error), run, kill func(T) error) (took life, err error) {
	start := time.Now()
	box, err := create()
	if err != nil {
		return took, err
	}
	took[0] = time.Since(start)
	start = time.Now()
	if err := run(box); err != nil {
		return took, errors.Join(err, kill(box))
	}
	took[1] = time.Since(start)
	start = time.Now()
	err = kill(box)
	took[2] = time.Since(start)
	return took, err
}

// manager is what servers are compared with.
func (r *run) manager(backend string) *speaker {
	return &speaker{name: direct, end: func() {}, live: func(ctx context.Context) (life, error) {
		return lived(func() (api.SandboxID, error) {
			s, err := r.Sandboxes.Create(ctx, request(backend))
			return s.ID, err
		}, func(id api.SandboxID) error { return r.recorded(ctx, id) }, func(id api.SandboxID) error { return r.destroy(ctx, id) })
	}}
}

// overClient lives over the Go SDK, as the command line does.
func overClient(name string, c *client.Client, backend string) *speaker {
	return &speaker{name: name, end: c.Close, live: func(ctx context.Context) (life, error) {
		return lived(func() (*client.Sandbox, error) { return c.Sandboxes.Create(ctx, request(backend)) },
			func(s *client.Sandbox) error { return s.Command(ctx, command).Run() },
			func(s *client.Sandbox) error {
				killed, err := s.Kill(context.WithoutCancel(ctx))
				if err == nil && killed.Proof.Left != 0 {
					err = api.Errorf(api.KindInternal, "sandbox %s: %d processes are left after its end", s.ID(), killed.Proof.Left)
				}
				return errors.Join(err, s.Close())
			})
	}}
}
