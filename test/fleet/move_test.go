package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/test/archivetest"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// counting is a program that counts in its memory, with a name that it makes up when it starts, and writes both to a file, in place, and the number to its output.
const counting = `name=$(cat /proc/sys/kernel/random/uuid); i=1000; while :; do i=$((i+1)); echo "$name $i" 1<>/tmp/count; echo $i; sleep 0.2; done`

// counter is a sandbox in which the program runs.
type counter struct {
	id   api.SandboxID
	exec api.ExecID
	name string
	last int
	// out is the output of the command, as its client reads it all the time; read is the error of that.
	out  output
	read chan error
}

// output is text that is written and read at the same time.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

// numbers returns the last of the numbers that the program printed. It is an error if one is missing.
func (o *output) numbers() (last int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(string(o.text), "\n")
	for _, line := range lines[:len(lines)-1] {
		n, err := strconv.Atoi(line)
		if err != nil || last != 0 && n != last+1 {
			return last, fmt.Errorf("%q comes after %d", line, last)
		}
		last = n
	}
	return last, nil
}

// startCounter creates a sandbox with the program.
func startCounter(t *testing.T, c *client.Client) *counter {
	t.Helper()
	s := world.Must(c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "gvisor", TTLMS: time.Hour.Milliseconds(), Limits: api.Limits{MemoryBytes: 128 << 20}}))(t)
	x := &counter{id: s.ID(), read: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	cmd := s.Command(ctx, "/bin/sh", "-c", counting)
	cmd.Stdout = &x.out
	world.OK(t, cmd.Start())
	go func() { x.read <- cmd.Wait() }()
	t.Cleanup(func() { stop(); <-x.read })
	until(t, "the program counts", func(ctx context.Context) bool { return x.look(ctx, c) == nil })
	execs := world.Must(s.Execs(t.Context()))(t)
	i := slices.IndexFunc(execs, func(e api.Exec) bool { return e.State == api.ExecRunning })
	if i < 0 {
		t.Fatalf("no command runs: %+v", execs)
	}
	x.exec = execs[i].ID
	return x
}

// look reads what the program has counted, through a node. It is an error if that is not the program that began, or has not counted on.
func (x *counter) look(ctx context.Context, c *client.Client) error {
	s, err := c.Sandboxes.Get(ctx, string(x.id))
	if err != nil {
		return err
	}
	r, _, err := s.ReadFile(ctx, "", "/tmp/count")
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	name, number, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, nerr := strconv.Atoi(number)
	switch {
	case err != nil || nerr != nil:
		return fmt.Errorf("%q: %v, %v", text, err, nerr)
	case x.name != "" && (name != x.name || n < x.last):
		return fmt.Errorf("the program %s had counted to %d, and now it is %s at %d", x.name, x.last, name, n)
	}
	x.name, x.last = name, n
	return nil
}

// drain drains a node, and returns what became of its sandboxes.
func drain(t *testing.T, c *client.Client, node string) admin.DrainedNode {
	t.Helper()
	var out admin.DrainedNode
	until(t, "node "+node+" is drained", func(ctx context.Context) bool {
		out = world.Must(c.DrainNode(ctx, node, admin.DrainNode{}))(t)
		return !out.Busy()
	})
	return out
}

// ready waits until a node has reported what it can restore.
func (all nodes) ready(t *testing.T, name string) {
	t.Helper()
	until(t, "node "+name+" reports what it can restore", func(ctx context.Context) bool {
		f := world.Must(all[0].Client.FleetNodes(ctx))(t)
		i := slices.IndexFunc(f.Nodes, func(n admin.FleetNode) bool { return n.Name == name })
		return i >= 0 && len(f.Nodes[i].Capacity.Restores) > 0
	})
}

// TestDrainMoves: the sandboxes of a node that drains continue on another one with their memory, for clients of any node. One that was paused stays paused, and
// what cannot be moved says why.
func TestDrainMoves(t *testing.T) {
	t.Parallel()
	b := newBase(t)
	b.archive = t.TempDir()
	all := b.open(t, 1)
	all[0].Isolates(t, "gvisor")
	ctx, a := t.Context(), all[0].Client
	var counters []*counter
	for range 2 {
		counters = append(counters, startCounter(t, a))
	}
	paused := world.Must(a.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "gvisor"}))(t)
	world.Must(paused.Pause(ctx))(t)
	fixed := world.Must(a.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "container"}))(t)

	all = b.add(t, all)
	other := all[1].Client
	all.ready(t, "b")
	// A client asks all the time, through the other node.
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	longest := make([]time.Duration, len(counters))
	for i, x := range counters {
		asked.Go(func() {
			for asking.Err() == nil {
				began := time.Now()
				if err := x.look(asking, other); err != nil && asking.Err() == nil {
					// It was being served as the sandbox stopped.
					if t.Logf("a request during the move: %v", err); api.KindOf(err) != api.KindUnavailable {
						t.Errorf("its kind is %q", api.KindOf(err))
					}
				}
				longest[i] = max(longest[i], time.Since(began))
			}
		})
	}
	began := time.Now()
	out := drain(t, other, "a")
	took := time.Since(began)
	stop()
	asked.Wait()
	t.Logf("drained in %s; requests took %s at most; %+v", took.Round(time.Millisecond), longest, out.Moves)
	if len(out.Sandboxes) != 1 || out.Sandboxes[0] != fixed.ID() || len(out.Moves) != 4 {
		t.Fatalf("%+v", out)
	}
	for _, m := range out.Moves {
		switch m.Sandbox {
		case fixed.ID():
			if m.State != admin.MoveRefused || !strings.Contains(m.Reason, "container backend cannot save its memory") {
				t.Errorf("%+v", m)
			}
		default:
			if m.State != admin.MoveDone || m.To != "b" || m.Resumed != (m.Sandbox != paused.ID()) || m.Reason != "" {
				t.Errorf("%+v", m)
			}
		}
	}
	for _, x := range counters {
		until(t, "the output is read on", func(context.Context) bool {
			last, err := x.out.numbers()
			world.OK(t, err)
			return last > x.last+2
		})
		for _, w := range all {
			before := x.last
			until(t, "the program counts on", func(ctx context.Context) bool {
				world.OK(t, x.look(ctx, w.Client))
				return x.last > before
			})
			s := world.Must(w.Client.Sandboxes.Get(ctx, string(x.id)))(t)
			if e := world.Must(s.Exec(ctx, x.exec))(t); e.State != api.ExecRunning {
				t.Errorf("its command is %s: %+v", e.State, e.Exit)
			}
			row := world.Must(s.Info(ctx))(t)
			if row.Moving || row.State != api.SandboxRunning || time.Until(row.ExpiresAt) < 50*time.Minute {
				t.Errorf("%+v", row)
			}
		}
		if has, _ := all.of(t, x.id); has != all[1] {
			t.Error("it is not on the other node")
		}
		following, done := context.WithTimeout(ctx, patience.Of(time.Minute))
		for e, err := range world.Must(other.Sandboxes.Get(ctx, string(x.id)))(t).Events(following, 0) {
			if world.OK(t, err); strings.Contains(string(e.Data), "moved from node a to node b") {
				break
			}
		}
		done()
	}
	if row := world.Must(paused.Info(ctx))(t); row.State != api.SandboxPaused || row.Moving {
		t.Errorf("the paused one: %+v", row)
	}
	world.Must(paused.Resume(ctx))(t)
	if out, err := world.Sh(t, paused, "echo here"); err != nil || out != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
	// Nothing of them is left on the node.
	forced := world.Must(a.DrainNode(ctx, "a", admin.DrainNode{Force: true}))(t)
	if len(forced.Sandboxes) != 0 || forced.Ended != 1 {
		t.Errorf("after force: %+v", forced)
	}
}

// TestDrainTwenty: a drain of a node with 20 sandboxes: 20 continue with memory.
func TestDrainTwenty(t *testing.T) {
	tier.Soak(t)
	for _, place := range []string{"directory", "object store"} {
		t.Run(place, func(t *testing.T) {
			b := newBase(t)
			b.archive = t.TempDir()
			if place != "directory" {
				b.archive = "s3://" + archivetest.Bucket + "/fleet?endpoint=" + archivetest.Gateway(t)
			}
			all := b.open(t, 1)
			all[0].Isolates(t, "gvisor")
			var counters []*counter
			for range 20 {
				counters = append(counters, startCounter(t, all[0].Client))
			}
			all = b.add(t, all)
			all.ready(t, "b")
			for _, x := range counters {
				world.OK(t, x.look(t.Context(), all[0].Client))
			}
			began := time.Now()
			out := drain(t, all[1].Client, "a")
			took := time.Since(began)
			var away []time.Duration
			for _, m := range out.Moves {
				if m.State != admin.MoveDone || !m.Resumed {
					t.Errorf("%+v", m)
				}
				away = append(away, time.Duration(m.AwayMS)*time.Millisecond)
			}
			if len(away) != len(counters) || len(out.Sandboxes) != 0 {
				t.Fatalf("%+v", out)
			}
			slices.Sort(away)
			t.Logf("20 sandboxes, %s: drained in %s; a sandbox stopped for %s in the median, %s at most", place, took.Round(10*time.Millisecond), away[len(away)/2], away[len(away)-1])
			for _, x := range counters {
				before := x.last
				until(t, "the program counts on", func(ctx context.Context) bool {
					world.OK(t, x.look(ctx, all[0].Client))
					return x.last > before
				})
				if has, _ := all.of(t, x.id); has != all[1] {
					t.Error("a sandbox is not on the other node")
				}
			}
			if most := patience.Of(time.Minute); away[len(away)-1] > most {
				t.Errorf("a sandbox stopped for longer than %s", most)
			}
		})
	}
}
