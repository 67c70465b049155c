package story

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/tier"
)

// TestLoadWithKills is TestLoad with a daemon that is killed in the middle, again and
// again, at instants that are drawn. A client repeats what was cut off under the key of
// the first time. In the end every sandbox and every command is there as often as it was
// asked for, and what was acknowledged is whole.
func TestLoadWithKills(t *testing.T) {
	tier.Soak(t) // kills; TestLoad has the load, and TestDaemonKilled the kills
	tier.AnyUser(t)
	want := loadOf(t)
	kills := killCount(t, 1, 4)
	g := newGarden(t)
	g.light()
	isolation := loadIsolation()
	g.env = append(g.env, "HORTUS_ISOLATION="+isolation, "HORTUS_IDLE=10m", "HORTUS_MAX_SANDBOXES="+strconv.Itoa(want.most))
	g.must("sandbox", "run", "--", "true")
	before := g.rows()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))

	// The daemon dies when so many deeds were done, of all that will be.
	var deeds atomic.Int64
	var at []int64
	for range kills {
		at = append(at, random.Int64N(int64(want.sandboxes*deedsOfALife)))
	}
	slices.Sort(at)
	over := make(chan struct{})
	var killer sync.WaitGroup
	fell := 0
	killer.Go(func() {
		for _, n := range at {
			for deeds.Load() < n {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
			}
			if pid := daemonOf(g.dir); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
				fell++
			}
			if r := g.run("sandbox", "ls"); r.code != 0 { // the next command's daemon
				t.Errorf("after kill %d: %s", fell, r)
			}
		}
	})

	began := time.Now()
	lives := make([]*killedLife, want.sandboxes)
	var next atomic.Int64
	var all sync.WaitGroup
	for range want.clients {
		all.Go(func() {
			c := g.client()
			defer c.Close()
			for n := next.Add(1) - 1; n < int64(len(lives)); n = next.Add(1) - 1 {
				l := &killedLife{g: g, c: c, name: fmt.Sprintf("life-%d", n), isolation: isolation, done: func() { deeds.Add(1) }}
				lives[n] = l
				ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
				if err := l.live(ctx); err != nil {
					t.Errorf("%s: %v (%s)", l.name, err, api.HintOf(err))
				}
				cancel()
			}
		})
	}
	all.Wait()
	close(over)
	killer.Wait()
	took := time.Since(began)
	if fell != kills {
		t.Errorf("%d of %d kills fell", fell, kills)
	}
	checkLives(t, g, lives, before)
	cuts := 0
	for _, l := range lives {
		cuts += l.cuts
	}
	t.Logf("%d sandboxes of %d clients, %d at a time, on %s, %d kills: %s; %d requests were cut off", want.sandboxes, want.clients, want.most, isolation, fell, took.Round(time.Millisecond), cuts)
	if cuts == 0 && kills > 0 {
		t.Error("no request was cut off")
	}
}

// checkLives holds what the daemon tells of all lives to what their clients saw.
func checkLives(t *testing.T, g *garden, lives []*killedLife, before map[string]api.Sandbox) {
	t.Helper()
	used := map[string]*killedLife{}
	for _, l := range lives {
		used[string(l.id)] = l
	}
	for id, row := range g.rows() {
		l := used[id]
		delete(used, id)
		_, old := before[id]
		switch {
		case old:
		case !strings.HasPrefix(row.Labels["life"], "life-"):
			t.Errorf("nobody asked for sandbox %s", id)
		case !row.State.Final():
			t.Errorf("sandbox %s of %s is %s", id, row.Labels["life"], row.State)
		case l == nil && (row.State != api.SandboxLost || row.Reason == ""):
			// Begun by a daemon that died before it could tell anybody.
			t.Errorf("sandbox %s of %s, which nobody got, is %s, %q", id, row.Labels["life"], row.State, row.Reason)
		case l != nil && row.State == api.SandboxLost && (!l.killCut || row.Reason == ""):
			t.Errorf("sandbox %s of %s is lost, %q", id, l.name, row.Reason)
		}
	}
	for id, l := range used {
		t.Errorf("of sandbox %s of %s nothing is known", id, l.name)
	}
	g.onlyLeft(0, nil)
}

// killedLife is one sandbox's life under a daemon that dies.
type killedLife struct {
	g               *garden
	c               *client.Client
	name, isolation string
	done            func() // after each deed

	id      api.SandboxID
	cuts    int
	starts  int
	killCut bool
}

// deedsOfALife: create, write, run, kill.
const deedsOfALife = 4

// again does something until the daemon lives long enough to answer.
func (l *killedLife) again(ctx context.Context, f func() error) error {
	for {
		err := f()
		if api.KindOf(err) != api.KindUnavailable || ctx.Err() != nil {
			return err
		}
		l.cuts++
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// live lives.
func (l *killedLife) live(ctx context.Context) error {
	sandbox, err := l.create(ctx)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer sandbox.Close()
	l.id = sandbox.ID()
	l.done()
	// What was acknowledged is there.
	text := bytes.Repeat([]byte(l.name+"\n"), 2000)
	if err := l.again(ctx, func() error { return sandbox.WriteFile(ctx, "", "/tmp/text", bytes.NewReader(text)) }); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	l.done()
	for {
		id, told, err := l.start(ctx, sandbox)
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		err = l.read(ctx, sandbox, id, text)
		if err == nil {
			break
		}
		if told || api.KindOf(err) != api.KindNotFound {
			return fmt.Errorf("read: %w", err)
		}
		// Nobody was told that it runs, and it does not: its daemon died before the guest
		// had heard of it. The next one says so.
		if err := l.neverBegan(ctx, sandbox, id); err != nil {
			return err
		}
	}
	l.done()
	l.done()
	var killed client.Killed
	err = l.again(ctx, func() (err error) {
		killed, err = sandbox.Kill(ctx)
		l.killCut = l.killCut || api.KindOf(err) == api.KindUnavailable
		return err
	})
	if err != nil || killed.Proof.Left != 0 || !killed.Sandbox.State.Final() {
		return fmt.Errorf("kill: %+v, %w", killed, err)
	}
	l.done()
	return nil
}

// create makes the sandbox, once.
func (l *killedLife) create(ctx context.Context) (sandbox *client.Sandbox, err error) {
	for try := 1; ; try++ {
		once := client.WithIdempotencyKey(ctx, fmt.Sprintf("%s-%d", l.name, try))
		err = l.again(ctx, func() (err error) {
			sandbox, err = l.c.Sandboxes.Create(once, api.CreateSandbox{Isolation: l.isolation, TTLMS: time.Hour.Milliseconds(), Labels: map[string]string{"life": l.name}})
			return err
		})
		if api.KindOf(err) != api.KindConflict {
			return sandbox, err
		}
		// Nobody knows whether the first one was made: look.
		var all []api.Sandbox
		if err := l.again(ctx, func() (err error) { all, err = l.c.Sandboxes.List(ctx, false); return err }); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(all, func(s api.Sandbox) bool { return s.Labels["life"] == l.name }); i >= 0 {
			err := l.again(ctx, func() (err error) { sandbox, err = l.c.Sandboxes.Get(ctx, string(all[i].ID)); return err })
			return sandbox, err
		}
	}
}

// exitCode is that of the command.
const exitCode = 7

// start starts the command, once. told says that a daemon said so; otherwise its record
// was found.
func (l *killedLife) start(ctx context.Context, sandbox *client.Sandbox) (id api.ExecID, told bool, err error) {
	req := api.ExecRequest{Args: []string{"sh", "-c", "cat /tmp/text; sleep 0.2; echo end; exit " + strconv.Itoa(exitCode)}}
	for {
		l.starts++
		var x api.Exec
		once := client.WithIdempotencyKey(ctx, fmt.Sprintf("%s-exec-%d", l.name, l.starts))
		err := l.again(ctx, func() (err error) { x, err = sandbox.CreateExec(once, req); return err })
		if api.KindOf(err) != api.KindConflict {
			return x.ID, true, err
		}
		var all []api.Exec
		if err := l.again(ctx, func() (err error) { all, err = sandbox.Execs(ctx); return err }); err != nil {
			return "", false, err
		}
		if i := slices.IndexFunc(all, func(x api.Exec) bool { return x.State != api.ExecUnknown }); i >= 0 {
			return all[i].ID, false, nil
		}
	}
}

// neverBegan waits until a command's record says that.
func (l *killedLife) neverBegan(ctx context.Context, sandbox *client.Sandbox, id api.ExecID) error {
	for {
		var x api.Exec
		err := l.again(ctx, func() (err error) { x, err = sandbox.Exec(ctx, id); return err })
		switch {
		case err != nil:
			return err
		case x.State == api.ExecUnknown && x.OutputBytes == 0:
			return nil
		case x.State != api.ExecRunning:
			return fmt.Errorf("the guest does not know command %s, and its record is %+v", id, x)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the guest does not know command %s, and its record says that it runs", id)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// read reads the command to its end, on from where it was after a cut, and wants all of
// it and nothing else.
func (l *killedLife) read(ctx context.Context, sandbox *client.Sandbox, id api.ExecID, text []byte) error {
	var out bytes.Buffer
	var exit *client.ExitError
	err := l.again(ctx, func() error { return sandbox.Attach(ctx, id, int64(out.Len()), &out, io.Discard) })
	if !errors.As(err, &exit) || exit.Code != exitCode {
		return err
	}
	if want := append(slices.Clone(text), "end\n"...); !bytes.Equal(out.Bytes(), want) {
		return fmt.Errorf("read: %d bytes came of %d", out.Len(), len(want))
	}
	var all []api.Exec
	if err := l.again(ctx, func() (err error) { all, err = sandbox.Execs(ctx); return err }); err != nil {
		return err
	}
	ran := slices.DeleteFunc(all, func(x api.Exec) bool { return x.State == api.ExecUnknown && x.OutputBytes == 0 })
	if len(ran) != 1 || ran[0].ID != id || ran[0].State != api.ExecExited || ran[0].Exit.Code != exitCode || ran[0].OutputBytes != int64(out.Len()) {
		return fmt.Errorf("one command was asked for, and %+v are known", all)
	}
	return nil
}
