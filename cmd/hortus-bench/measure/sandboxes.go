package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/program"
	"hortus.dev/internal/sandbox/manager"
)

// command is what every round trip runs: the least that a program can do.
const command = "/bin/true"

// path is where every command of a measurement looks for programs, in sandboxes and on the host: what is
// compared must be the same program.
const path = "/usr/local/bin:/usr/bin:/bin"

// way is one way of coming by a sandbox. Its name ends the names of its rows.
type way struct {
	name string
	// create makes one as fast as this way can.
	create func(*manager.Creator, context.Context, api.CreateSandbox) (api.Sandbox, error)
	// note is what a row's reader must know.
	note string
}

// cold boots a guest for each sandbox. pooled claims guests that were booted ahead, for as long as there
// are any.
var (
	cold   = way{name: "cold", create: (*manager.Creator).CreateCold}
	pooled = way{name: "pooled", create: (*manager.Creator).Create}
)

// lifetime is how long a sandbox may live that is measured: some are there for as long as a measurement takes.
const lifetime = 6 * time.Hour

// request requests a sandbox of the default kind.
func request(backend string) api.CreateSandbox {
	return api.CreateSandbox{Isolation: backend, TTLMS: lifetime.Milliseconds()}
}

// roomy is a request for a sandbox with so many MB for its programs.
func roomy(backend string, mb int) api.CreateSandbox {
	req := request(backend)
	if need := int64(mb+512) << 20; need > api.DefaultLimits().MemoryBytes {
		req.Limits.MemoryBytes = need
	}
	return req
}

// busy requests a sandbox with room, and with as many processors as the host's own commands have, where
// there are limits.
func (b *Bench) busy(ctx context.Context, backend string) api.CreateSandbox {
	req := request(backend)
	if _, ok := b.has(ctx, backend, api.CapLimitCPU); ok {
		req.Limits = api.Limits{CPUs: float64(runtime.NumCPU()), MemoryBytes: 3 << 30, DiskBytes: 1 << 30, Processes: 512}
	}
	return req
}

// has says whether a backend can do something here.
func (b *Bench) has(ctx context.Context, backend string, c api.Capability) (api.Ability, bool) {
	for _, report := range b.Sandboxes.Backends.Reports(ctx) {
		if report.Backend == backend {
			return report.Has(c)
		}
	}
	return api.Ability{}, false
}

// waysOf lists the ways that a backend has: measurements that create sandboxes take them in turn.
func (b *Bench) waysOf(ctx context.Context, backend string) ([]way, error) {
	n, err := b.Sandboxes.Creator.Pooled(ctx, request(backend))
	if err != nil || n == 0 {
		return []way{cold}, err
	}
	p := pooled
	p.note = fmt.Sprintf("a pool of %d", n)
	return []way{cold, p}, nil
}

// quietWithin bounds the wait for a full pool.
const quietWithin = 2 * time.Minute

// quiet waits until no guest is being booted ahead. It comes before every sample of whatever kind, outside of
// its clock: so each has the host to itself, finds a full pool, and every count has the same guests in it.
func (b *Bench) quiet(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, quietWithin)
	defer cancel()
	err := b.Sandboxes.Creator.AwaitWarm(waiting)
	if err != nil && ctx.Err() == nil {
		ready, want := b.Sandboxes.Creator.Warm()
		return api.Errorf(api.KindTimeout, "after %s %d of %d guests are warm", quietWithin, ready, want).
			WithHint("the log says why no more could be booted ahead: --verbose shows it")
	}
	return err
}

// started creates a sandbox and runs something in it. The time is from the call of create to the end of that.
// After an error nothing is left.
func (b *Bench) started(ctx context.Context, create func() (api.Sandbox, error), do func(api.SandboxID) error) (api.SandboxID, time.Duration, error) {
	start := time.Now()
	s, err := create()
	if err != nil {
		return "", 0, err
	}
	if err := do(s.ID); err != nil {
		return "", 0, errors.Join(err, b.destroy(ctx, s.ID))
	}
	return s.ID, time.Since(start), nil
}

// birth creates a sandbox of the default kind and runs its first command.
func (b *Bench) birth(ctx context.Context, w way, backend string) (api.SandboxID, time.Duration, error) {
	return b.started(ctx, func() (api.Sandbox, error) { return w.create(b.Sandboxes.Creator, ctx, request(backend)) },
		func(id api.SandboxID) error { return b.recorded(ctx, id) })
}

// alone is birth and the end of the sandbox, when nothing else is in progress.
func (b *Bench) alone(ctx context.Context, w way, backend string) (time.Duration, error) {
	if err := b.quiet(ctx); err != nil {
		return 0, err
	}
	id, first, err := b.birth(ctx, w, backend)
	if err != nil {
		return 0, err
	}
	return first, b.destroy(ctx, id)
}

// whole is a sandbox's whole life: create, run, destroy.
func (b *Bench) whole(ctx context.Context, w way, backend string) error {
	id, _, err := b.birth(ctx, w, backend)
	if err != nil {
		return err
	}
	return b.destroy(ctx, id)
}

// destroy kills a sandbox and returns when it is proven that nothing is left.
func (b *Bench) destroy(ctx context.Context, id api.SandboxID) error {
	_, proof, err := b.Sandboxes.Sandboxes.Kill(context.WithoutCancel(ctx), id)
	if err == nil && proof.Left != 0 {
		err = api.Errorf(api.KindInternal, "sandbox %s: %d processes are left after its end", id, proof.Left)
	}
	return err
}

// kill ends a sandbox whose time does not count.
func (b *Bench) kill(id api.SandboxID) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, _, _ = b.Sandboxes.Sandboxes.Kill(ctx, id) // its deadline is the second chance
}

// recorded runs a command as every user's command is run.
func (b *Bench) recorded(ctx context.Context, id api.SandboxID) error {
	_, err := b.command(ctx, id, api.ExecRequest{Args: []string{command}}, "")
	return err
}

// in runs a command in a sandbox to its end and gives what it wrote. It must succeed.
func (b *Bench) in(ctx context.Context, id api.SandboxID, argv []string) (string, error) {
	return b.until(ctx, id, api.ExecRequest{Args: argv, Env: map[string]string{"PATH": path}}, "")
}

// until runs a command up to the line that it is to write, or to its end where that is empty. Past the line
// the command continues by itself. A context that ends takes the sandbox with it: nobody waits for a command
// of minutes.
func (b *Bench) until(ctx context.Context, id api.SandboxID, req api.ExecRequest, line string) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = b.destroy(ctx, id) })
	defer stop()
	return b.command(ctx, id, req, line)
}

// command is until, with a sandbox that stays.
func (b *Bench) command(ctx context.Context, id api.SandboxID, req api.ExecRequest, line string) (string, error) {
	s, err := b.Sandboxes.Guests.StartExec(ctx, id, req)
	if err != nil {
		return "", err
	}
	defer s.Close()
	var out, complaint bytes.Buffer
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return "", err
		}
		if ev.Data == nil {
			continue
		}
		program.Keep(&out, ev.Data.Stdout)
		program.Keep(&complaint, ev.Data.Stderr)
		if line != "" && strings.Contains("\n"+out.String(), "\n"+line+"\n") {
			return out.String(), nil
		}
	}
	if x := s.Exec(); x.State != api.ExecExited || x.Exit.Code != 0 {
		return "", api.Errorf(api.KindInternal, "sandbox %s: %.40q ended with %d %s: %s", id, req.Args[0], x.Exit.Code, x.Exit.Cause, program.Last(complaint.String()))
	}
	if line != "" {
		return "", api.Errorf(api.KindInternal, "sandbox %s: %.40q ended before it said %q", id, req.Args[0], line)
	}
	return out.String(), nil
}

// python requests a program of Python's, without what a user's directories add.
func python(program string, args ...string) []string {
	return append([]string{"python3", "-I", "-c", program}, args...)
}

// talk starts a program in a sandbox that answers lines by lines.
func (b *Bench) talk(ctx context.Context, id api.SandboxID, argv []string) (*program.Talk, error) {
	guest, err := b.Sandboxes.Guests.Client(ctx, id)
	if err != nil {
		return nil, err
	}
	return program.In(ctx, guest, argv, map[string]string{"PATH": path})
}

// holder holds so many MB that no compression makes smaller, every page of them touched, and then does
// nothing. With a second argument it writes a MB of it again when /tmp/ask is written to, and answers in
// /tmp/answer.
const holder = `
import os, sys, time
size = int(sys.argv[1]) << 20
held = memoryview(bytearray(size))
for at in range(0, size, 1 << 20):
    held[at:at + (1 << 20)] = os.urandom(1 << 20)
if len(sys.argv) > 2:
    os.mkfifo("/tmp/ask"); os.mkfifo("/tmp/answer")
print("held", flush=True)
while len(sys.argv) < 3:
    time.sleep(3600)
while True:
    for line in open("/tmp/ask"):
        held[:1 << 20] = os.urandom(1 << 20)
        with open("/tmp/answer", "w") as f: f.write("written")
`

// held makes a sandbox in which the holder holds so many MB.
func (b *Bench) held(ctx context.Context, req api.CreateSandbox, mb int, args ...string) (api.SandboxID, error) {
	run := api.ExecRequest{Args: python(holder, append([]string{fmt.Sprint(mb)}, args...)...), Env: map[string]string{"PATH": path}}
	id, _, err := b.started(ctx, func() (api.Sandbox, error) { return b.Sandboxes.Creator.CreateCold(ctx, req) },
		func(id api.SandboxID) error { _, err := b.until(ctx, id, run, "held"); return err })
	return id, err
}
