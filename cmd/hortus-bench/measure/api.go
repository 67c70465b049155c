package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
)

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

// door is one way of speaking to the daemon. Without open it is missing, and the reason is why.
type door struct {
	name string
	// backend is the only one whose sandboxes it gives; empty is any.
	backend string
	open    func(ctx context.Context, backend string) (*speaker, error)
	missing string
}

// servers measures what a create, a command and a kill cost over each server and by the manager alone. Lives
// take turns: each finds a full pool. The clock of a create is from the call to its answer, that of a command
// from its start to its exit, that of a kill to its proof.
func (r *run) servers(ctx context.Context) error {
	k, err := r.client.Keys.Create(ctx, api.CreateKey{Name: "bench", Account: "bench", Role: api.RoleUser,
		Ceilings: api.Ceilings{Sandboxes: api.NoCeiling, MemoryBytes: api.NoCeiling, CPUs: api.NoCeiling, TTLMS: api.NoCeiling}})
	if err != nil {
		return err
	}
	defer func() { _, _ = r.client.Keys.Revoke(context.WithoutCancel(ctx), string(k.Key.ID)) }() // the daemon ends with the bench
	over := func(name string, open func() (*client.Client, error)) door {
		return door{name: name, open: func(_ context.Context, backend string) (*speaker, error) {
			c, err := open()
			if err != nil {
				return nil, err
			}
			return overClient(name, c, backend), nil
		}}
	}
	npm := door{name: "npm e2b", missing: "--npm names no directory with the package"}
	if r.cfg.NPM != "" {
		usual, _, _, err := r.Sandboxes.Backends.Choose(ctx, r.cfg.Daemon.Usual.Isolation)
		if err != nil {
			return err
		}
		npm = overNPM(r.cfg.NPM, r.url, k.Secret, usual.Name())
	}
	doors := []door{
		over("unix socket", func() (*client.Client, error) { return client.Unix(r.Socket), nil }),
		over("TCP", func() (*client.Client, error) { return client.Remote(r.url, k.Secret) }), npm,
	}
	for i, backend := range r.backends {
		if err := r.serversOf(ctx, doors, backend, i == 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) serversOf(ctx context.Context, doors []door, backend string, first bool) error {
	all := []*speaker{r.manager(backend)}
	defer func() {
		for _, s := range all {
			s.end()
		}
	}()
	for _, d := range doors {
		why := d.missing
		switch {
		case why != "":
		case d.backend == "" || d.backend == backend:
			s, err := d.open(ctx, backend)
			if err == nil {
				all = append(all, s)
				continue
			}
			why = err.Error()
		case slices.Contains(r.backends, d.backend):
			continue
		default:
			why = "its sandboxes use " + d.backend + ", which was not requested"
		}
		if first || d.backend == backend {
			r.report(figure.Missing(rowAPI+d.name, "", why))
		}
	}
	const warmUp = 3
	n := max(r.N/4, 1)
	for i := range n + warmUp {
		r.step(backend, i, n+warmUp)
		for _, s := range all {
			if err := r.quiet(ctx); err != nil {
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
		base := figure.Median(all[0].times[k])
		for _, s := range all {
			row := figure.Row{Name: rowAPI + deed + ", " + s.name, Backend: backend}
			if s != all[0] {
				row.Baseline = rowAPI + deed + ", " + direct
			}
			r.times(row, s.times[k], base)
		}
	}
	return nil
}

// lived times three deeds on one sandbox. After an error nothing is left.
func lived[T any](create func() (T, error), run, kill func(T) error) (took life, err error) {
	start := time.Now()
	sandbox, err := create()
	if err != nil {
		return took, err
	}
	took[0] = time.Since(start)
	start = time.Now()
	if err := run(sandbox); err != nil {
		return took, errors.Join(err, kill(sandbox))
	}
	took[1] = time.Since(start)
	start = time.Now()
	err = kill(sandbox)
	took[2] = time.Since(start)
	return took, err
}

// manager is what servers are compared with.
func (r *run) manager(backend string) *speaker {
	return &speaker{name: direct, end: func() {}, live: func(ctx context.Context) (life, error) {
		return lived(func() (api.SandboxID, error) {
			s, err := r.Sandboxes.Creator.Create(ctx, request(backend))
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

// lives is a program that lives one life for each line of its input, and answers with
// the times in milliseconds. The clock is the program's own.
const lives = `
const { Sandbox } = require('e2b')
const lines = require('readline').createInterface({ input: process.stdin })
const now = () => performance.now()
;(async () => {
  for await (const _ of lines) {
    const at = [now()]
    const box = await Sandbox.create({ timeoutMs: 600000 })
    at.push(now())
    try { await box.commands.run('/bin/true') } finally { at.push(now()); await box.kill() }
    at.push(now())
    console.log(JSON.stringify([1, 2, 3].map(i => at[i] - at[i - 1])))
  }
})().catch(e => { console.error(e && e.message || e); process.exit(1) })
`

// overNPM lives over the npm package e2b, which node finds in dir. It gets sandboxes of one backend, because
// it has no word for it.
func overNPM(dir, url, key, backend string) door {
	return door{name: "npm e2b", backend: backend, open: func(ctx context.Context, _ string) (*speaker, error) {
		node, err := program.Find("node")
		if err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
		cmd := exec.CommandContext(ctx, node, "-e", lives)
		cmd.Dir = dir
		// Nothing of this environment, which may hold keys, is the package's.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "E2B_API_KEY=" + key, "E2B_API_URL=" + url, "E2B_SANDBOX_URL=" + url}
		talk, err := program.Start(cmd)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "start node: %w", err)
		}
		return &speaker{name: "npm e2b", end: talk.Close, live: func(ctx context.Context) (took life, err error) {
			var times []float64
			if err := talk.Call(ctx, "", &times); err != nil {
				return took, err
			}
			if len(times) != len(deeds) {
				return took, api.Errorf(api.KindInternal, "the npm SDK did not live a life: %v", times)
			}
			for i, t := range times {
				took[i] = time.Duration(t * float64(time.Millisecond))
			}
			return took, nil
		}}, nil
	}}
}
