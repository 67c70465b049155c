package story

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// TestDaemonKilledAdopts kills the daemon at random instants, with sandboxes that live
// through all of it, in which commands print counted lines, some of them started at that
// very moment. The next daemon has every sandbox and every command: no line is lost or
// comes twice, exit codes are real, and nothing is there that nobody asked for.
func TestDaemonKilledAdopts(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			g := newGarden(t)
			if isolation == "gvisor" {
				g.canSaveMemory()
			}
			g.env = append(g.env, "HORTUS_ISOLATION="+isolation)
			killedAdopts(t, g)
		})
	}
}

func killedAdopts(t *testing.T, g *garden) {
	kills := killCount(t, 1, 3)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	sandboxes := []string{
		strings.TrimSpace(g.must("sandbox", "create", "--ttl", "2h")),
		strings.TrimSpace(g.must("sandbox", "create", "--ttl", "2h")),
	}
	before := g.rows()
	fell := map[string]int{}
	for i := range kills {
		var all []*counting
		for n := range 6 {
			all = append(all, &counting{g: g, sandbox: sandboxes[n%len(sandboxes)], name: fmt.Sprintf("%d-%d", i, n), code: 1 + n, flood: n == 1})
		}
		made := g.start("sandbox", "create", "--ttl", "2h", "--label", "made=meanwhile")
		var wg sync.WaitGroup
		for n, c := range all {
			after := time.Duration(0)
			if n >= 4 { // in the middle of its start, perhaps
				after = time.Duration(random.Int64N(int64(700 * time.Millisecond)))
			}
			wg.Go(func() {
				<-time.NewTimer(after).C
				c.run()
			})
		}
		g.killWithin(t, random, 700*time.Millisecond)
		g.must("sandbox", "ls") // the next command's daemon
		wg.Wait()
		made.ends()
		for _, c := range all {
			fell[c.check(t)]++
		}
		// Each sandbox is as it was, and what was made meanwhile works or says why not.
		after := g.rows()
		for _, id := range sandboxes {
			a, b := after[id], before[id]
			if a.State != api.SandboxRunning || a.ExpiresAt.Sub(b.ExpiresAt).Abs() > time.Second {
				t.Errorf("kill %d: sandbox %s is %s (%s), until %s; it was to live until %s", i, id, a.State, a.Reason, a.ExpiresAt, b.ExpiresAt)
			}
		}
		for id, row := range after {
			switch {
			case slices.Contains(sandboxes, id):
			case row.Labels["made"] != "meanwhile":
				t.Errorf("kill %d: nobody asked for sandbox %s", i, id)
			case !row.State.Final():
				g.must("sandbox", "exec", id, "--", "true")
				g.must("sandbox", "kill", id)
			case row.State == api.SandboxLost && row.Reason == "":
				t.Errorf("kill %d: sandbox %s is lost without a reason", i, id)
			}
		}
		g.onlyLeft(i, sandboxes)
		if t.Failed() {
			t.Fatalf("stopped after kill %d; the daemon's log:\n%s", i, g.log())
		}
	}
	for _, id := range sandboxes {
		g.must("sandbox", "kill", id)
	}
	var lines []string
	for how, n := range fell {
		lines = append(lines, fmt.Sprintf("%4d %s", n, how))
	}
	slices.Sort(lines)
	t.Logf("%d kills; commands\n%s", kills, strings.Join(lines, "\n"))
}

// rows returns every sandbox's row.
func (g *garden) rows() map[string]api.Sandbox {
	g.t.Helper()
	out := map[string]api.Sandbox{}
	for _, s := range decode[[]api.Sandbox](g.t, g.must("sandbox", "ls", "--all", "--json")) {
		out[string(s.ID)] = s
	}
	return out
}

// onlyLeft wants run directories of these sandboxes alone, and of what is warm.
func (g *garden) onlyLeft(i int, sandboxes []string) {
	g.t.Helper()
	until(g.t, fmt.Sprintf("kill %d: nothing else is left", i), func() string {
		left := slices.DeleteFunc(g.leftoversAlive(), func(l string) bool {
			return slices.ContainsFunc(sandboxes, func(id string) bool { return strings.HasSuffix(l, "/"+id) })
		})
		return strings.Join(left, "\n")
	})
}

// counting is a command that prints counted lines, with the one who reads them.
type counting struct {
	g             *garden
	sandbox, name string
	code          int
	flood         bool

	out  bytes.Buffer
	cuts int
	end  string // how it ended for its reader
	got  int    // the exit code that was heard
	err  error
}

const (
	counterLines = 300
	floodLines   = 300_000
)

func (c *counting) args() []string {
	text := fmt.Sprintf(`touch started-%s; i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); [ $((i %% 20)) != 0 ] || sleep 0.05; done; exit %d`, c.name, counterLines, c.code)
	if c.flood { // more than a guest keeps
		text = fmt.Sprintf(`touch started-%s; seq 0 %d; exit %d`, c.name, floodLines-1, c.code)
	}
	return []string{"sh", "-c", text}
}

func (c *counting) want() []byte {
	n := counterLines
	if c.flood {
		n = floodLines
	}
	var b []byte
	for i := range n {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b
}

// run starts the command and reads it to its end, from where it was whenever the daemon
// goes away.
func (c *counting) run() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := c.g.command(ctx, append([]string{"sandbox", "exec", c.sandbox, "--"}, c.args()...)...)
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &c.out, &complaint
	if c.err = cmd.Run(); c.err == nil || cmd.ProcessState.ExitCode() == c.code && complaint.Len() == 0 {
		c.end, c.got = "read to the end by who started them", cmd.ProcessState.ExitCode()
		return
	}
	// Who read a part of it is told that it goes on, and where the rest is.
	if text := complaint.String(); c.out.Len() > 0 && !strings.Contains(text, "the command continues") && !strings.Contains(text, "keeps running") {
		c.end = "whose reader was told nothing: " + text
		return
	}
	for c.cuts = 1; ctx.Err() == nil; c.cuts++ {
		x, found, err := c.record(ctx)
		switch {
		case err != nil: // no daemon yet
		case !found:
			c.end = "that nobody had heard of"
			return
		case x.State == api.ExecUnknown:
			c.end, c.got = "whose end is unknown", -1
			return
		default:
			if err = c.attach(ctx, x.ID); err == nil {
				c.end = "read on after a kill"
				return
			}
		}
		c.err = err
		time.Sleep(5 * time.Millisecond)
	}
	c.end = "that never ended"
}

// record finds the command's row.
func (c *counting) record(ctx context.Context) (x api.Exec, found bool, err error) {
	cl := c.g.client()
	defer cl.Close()
	s, err := cl.Sandboxes.Get(ctx, c.sandbox)
	if err != nil {
		return x, false, err
	}
	defer s.Close()
	all, err := s.Execs(ctx)
	i := slices.IndexFunc(all, func(x api.Exec) bool { return slices.Equal(x.Args, c.args()) })
	if i < 0 || err != nil {
		return x, false, err
	}
	return all[i], true, nil
}

// attach reads on, and is nil when the command's end was heard.
func (c *counting) attach(ctx context.Context, x api.ExecID) error {
	cl := c.g.client()
	defer cl.Close()
	s, err := cl.Sandboxes.Get(ctx, c.sandbox)
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.Attach(ctx, x, int64(c.out.Len()), &c.out, nil)
	var exit *client.ExitError
	if errors.As(err, &exit) {
		c.got = exit.Code
		return nil
	}
	return err
}

// check returns how the command went, after it wants it to have gone well: a command that
// began is whole, and one that is not was never begun.
func (c *counting) check(t *testing.T) string {
	t.Helper()
	switch c.end {
	case "that nobody had heard of", "whose end is unknown":
		r := c.g.run("sandbox", "exec", c.sandbox, "--", "test", "-e", "started-"+c.name)
		if c.out.Len() > 0 || r.code != 1 {
			t.Errorf("command %s, %s, had begun: %d bytes were read; %s", c.name, c.end, c.out.Len(), r)
		}
		return c.end + ", and that never began"
	case "that never ended":
		t.Errorf("command %s: %d bytes were read, after %d cuts: %v", c.name, c.out.Len(), c.cuts, c.err)
		return c.end
	}
	if strings.HasPrefix(c.end, "whose reader was told nothing") {
		t.Errorf("command %s, %s", c.name, c.end)
		return c.end
	}
	want := c.want()
	if c.got != c.code {
		t.Errorf("command %s, %s: exit %d, want %d", c.name, c.end, c.got, c.code)
	}
	if !bytes.Equal(c.out.Bytes(), want) {
		at := 0
		for at < min(len(want), c.out.Len()) && want[at] == c.out.Bytes()[at] {
			at++
		}
		t.Errorf("command %s, %s after %d cuts: %d bytes came of %d; they differ from %d on", c.name, c.end, c.cuts, c.out.Len(), len(want), at)
	}
	x, found, err := c.record(context.Background())
	until(t, "the record of command "+c.name+" is final", func() string {
		if x, found, err = c.record(context.Background()); err != nil || !found || x.State == api.ExecRunning {
			return fmt.Sprintf("%+v, %v", x, err)
		}
		return ""
	})
	if x.State != api.ExecExited || x.Exit.Code != c.code || x.OutputBytes != int64(len(want)) {
		t.Errorf("command %s: its record is %s, %+v, %d bytes; %d were written", c.name, x.State, x.Exit, x.OutputBytes, len(want))
	}
	if c.flood {
		return c.end + ", of more than is kept"
	}
	return c.end
}
