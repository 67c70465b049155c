package fleet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// stormNumber is a number of the storm, from the environment.
func stormNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	said := os.Getenv(name)
	if said == "" {
		return otherwise
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q; want a number above 0", name, said)
	}
	return n
}

// TestStorm kills nodes at random instants while clients work through random nodes, and starts them again. Each client records what it was
// told. Then an audit compares that with the rows: nothing that was confirmed is lost, nothing is invented, and everything has one
// owner. HORTUS_TEST_KILLS is the number of kills, HORTUS_TEST_CLIENTS that of clients, HORTUS_TEST_SEED repeats the instants of a run.
//
// Most nodes are back within seconds and continue what they had. One kill in 20 is a long death: another node takes over, and no other node
// is killed until then.
func TestStorm(t *testing.T) {
	tier.Soak(t)
	kills, many := stormNumber(t, "HORTUS_TEST_KILLS", 60), stormNumber(t, "HORTUS_TEST_CLIENTS", 50)
	seed := uint64(stormNumber(t, "HORTUS_TEST_SEED", int(time.Now().UnixNano())))
	t.Logf("HORTUS_TEST_SEED=%d HORTUS_TEST_KILLS=%d HORTUS_TEST_CLIENTS=%d", seed, kills, many)
	s := newStorm(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var all []*stormClient
	for i := range many {
		c := &stormClient{storm: s, n: i, random: rand.New(rand.NewPCG(seed, uint64(i)+10)), boxes: map[api.SandboxID]*toldBox{}, codes: map[string]toldCode{}, tasks: map[api.TaskID]*toldTask{}}
		all = append(all, c)
		working.Go(func() { c.work(ctx) })
	}
	random := rand.New(rand.NewPCG(seed, 1))
	began := time.Now()
	for n := range kills {
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond) // the instants are what is random
		s.kill(random.IntN(len(s.nodes)), n%20 == 10, time.Duration(random.IntN(1500))*time.Millisecond)
	}
	stop()
	working.Wait()
	s.restarts.Wait()
	t.Logf("%d kills of nodes in %s: %d of nodes that served, %d of nodes that started; nodes ended by themselves %d times", kills, time.Since(began).Round(time.Second), s.served, kills-s.served, s.stopped)
	s.audit(all)
}

// stormNode is a node that runs.
type stormNode struct {
	*exec.Cmd
	ended chan struct{}
}

// storm is a fleet whose nodes are killed.
type storm struct {
	t      *testing.T
	b      base
	db     *database.DB
	dirs   []string
	config []string
	shared []*client.Client // of the sockets of nodes

	restarts sync.WaitGroup
	mu       sync.Mutex
	nodes    []*stormNode
	served   int
	deaths   []time.Time // from just before each kill
	over     bool
	// stopped counts nodes that ended by themselves, as those do whose work is another's.
	stopped int
	watches sync.WaitGroup
	// continued are the times from the death of a node until its tasks had another owner, and until each was taken over by a node's own next run.
	elsewhere, here []time.Duration
}

func newStorm(t *testing.T, n int) *storm {
	t.Helper()
	server := postgrestest.Start(t)
	s := &storm{t: t, b: base{store: daemon.Store{URL: server.URL(postgrestest.User, server.Database(t))}, key: make([]byte, 32)}, nodes: make([]*stormNode, n)}
	t.Cleanup(func() {
		s.restarts.Wait()
		left, err := s.db.ListSandboxes(context.Background(), false) // they would survive their nodes
		if err != nil {
			t.Error(err)
		}
		for _, box := range left {
			ctx, cancel := context.WithTimeout(context.Background(), patience.Of(30*time.Second))
			if b, err := s.shared[0].Sandboxes.Get(ctx, string(box.ID)); err == nil {
				_, err = b.Kill(ctx)
				b.Close()
				if err != nil {
					t.Logf("sandbox %s cannot be ended: %v", box.ID, err)
				}
			}
			cancel()
		}
		s.db.Close()
		s.mu.Lock()
		s.over = true
		for _, c := range s.nodes {
			if c != nil {
				_ = c.Process.Signal(unix.SIGTERM)
			}
		}
		s.mu.Unlock()
		s.watches.Wait()
		for i := range s.nodes {
			if t.Failed() {
				t.Logf("the log of node %d is %s", i, s.config[i]+".log")
			}
		}
	})
	for i := range n {
		dir := s.b.dir(t)
		kept, err := os.MkdirTemp("", "hortus-storm-")
		world.OK(t, err)
		t.Cleanup(func() {
			if !t.Failed() {
				os.RemoveAll(kept)
			}
		})
		config := filepath.Join(kept, "config.toml")
		world.OK(t, os.WriteFile(config, fmt.Appendf(nil, "[store]\nurl = %q\n[fleet]\nname = \"s%d\"\nlisten = \"127.0.0.1:0\"\n[daemon]\nmax-sandboxes = 500\n", s.b.store.URL, i), 0o600))
		s.dirs, s.config, s.shared = append(s.dirs, dir), append(s.config, config), append(s.shared, client.Unix(datadir.Dir(dir).Socket()))
		s.boot(i)
		until(t, "a node serves", s.ready(i))
	}
	world.Must(s.shared[0].InitFleet(t.Context()))(t)
	var err error
	s.db, err = database.OpenPostgres(t.Context(), database.Postgres{URL: s.b.store.URL, KeyFile: filepath.Join(s.dirs[0], "hortus.db-key")})
	world.OK(t, err)
	return s
}

func (s *storm) ready(i int) func(context.Context) bool {
	return func(ctx context.Context) bool {
		timed, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return s.shared[i].Ready(timed) == nil
	}
}

// boot starts a node.
func (s *storm) boot(i int) {
	out, err := os.OpenFile(s.config[i]+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer out.Close()
	c := exec.Command("/proc/self/exe", "daemon", "run", "--data-dir", s.dirs[i], "--config", s.config[i], "--idle", "never", "--pool", "0")
	c.Args[0], c.Stdout, c.Stderr = "hortus", out, out
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		s.t.Error(err)
		return
	}
	n := &stormNode{c, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[i] = n
	s.watches.Go(func() {
		_ = c.Wait()
		close(n.ended)
		s.mu.Lock()
		again := s.nodes[i] == n && !s.over
		if again {
			s.nodes[i] = nil
			s.stopped++
		}
		s.mu.Unlock()
		if again { // as an operator's service manager does
			s.boot(i)
		}
	})
}

// kill kills a node, or the next one that runs, and has it start again after a pause. After a long death it waits until others have its tasks.
func (s *storm) kill(i int, long bool, pause time.Duration) {
	var c *stormNode
	if long { // others must know that they can judge
		s.restarts.Wait()
		for j := range s.nodes {
			until(s.t, "all nodes serve", s.ready(j))
		}
		time.Sleep(12 * time.Second)
	}
	for c == nil {
		s.mu.Lock()
		for range s.nodes {
			if c = s.nodes[i]; c != nil {
				s.nodes[i] = nil
				break
			}
			i = (i + 1) % len(s.nodes)
		}
		s.mu.Unlock()
		if c == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if long {
		s.work(i)
	}
	served := s.ready(i)(s.t.Context())
	s.deaths = append(s.deaths, time.Now())
	_ = c.Process.Kill()
	<-c.ended
	died := time.Now()
	if served {
		s.served++
	}
	left := s.unfinished(s.dead(i))
	if long {
		var following sync.WaitGroup
		for _, r := range left {
			following.Go(func() { s.followed(r, died, &s.elsewhere) })
		}
		following.Wait()
	} else {
		for _, r := range left {
			s.restarts.Go(func() { s.followed(r, died, &s.here) })
		}
	}
	s.restarts.Go(func() {
		time.Sleep(pause)
		s.boot(i)
	})
}

// work has a node with something to continue.
func (s *storm) work(i int) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience.Of(time.Minute))
	defer cancel()
	for n := 0; n < 3 && ctx.Err() == nil; {
		task, err := s.shared[i].Tasks.Create(ctx, program("sleep", 4))
		if err == nil && slices.ContainsFunc(s.unfinished(s.dead(i)), func(r store.Run) bool { return r.ID == string(task.ID) }) {
			n++
		}
	}
}

// dead are the runs of a node.
func (s *storm) dead(i int) func(api.OwnerID) bool {
	name := fmt.Sprint("s", i)
	known := map[api.OwnerID]bool{}
	return func(id api.OwnerID) bool {
		is, ok := known[id]
		if !ok {
			n, err := s.db.NodeOfOwner(s.t.Context(), id)
			is = err == nil && n.Name == name
			known[id] = is
		}
		return is
	}
}

// unfinished lists the journals of tasks of a node that have not ended.
func (s *storm) unfinished(of func(api.OwnerID) bool) (all []store.Run) {
	runs, err := s.db.UnfinishedRuns(s.t.Context(), "task", "")
	if err != nil {
		s.t.Error(err)
	}
	for _, r := range runs {
		if of(r.Owner) {
			all = append(all, r)
		}
	}
	return all
}

// followed measures when a task has another owner, or ends, after the death of its node.
func (s *storm) followed(r store.Run, died time.Time, into *[]time.Duration) {
	for now := r; now.Owner == r.Owner && now.EndedAt.IsZero() && time.Since(died) < time.Minute; time.Sleep(50 * time.Millisecond) {
		var err error
		if now, err = s.db.Run(s.t.Context(), r.ID); err != nil {
			s.t.Errorf("task %s of a node that died: %v", r.ID, err)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*into = append(*into, time.Since(died))
}

// program is a task whose program prints a text after some seconds.
func program(text string, seconds float64) api.CreateTask {
	return api.CreateTask{
		Artifact: &api.CodeArtifact{Language: "python", Files: []api.File{{Path: "main.py", Content: fmt.Sprintf("import time\ntime.sleep(%g)\nprint(%q)\n", seconds, text)}}, Run: "python3 main.py"},
		Sandbox:  api.CreateSandbox{Isolation: "process"}, RunTimeoutMS: 120_000,
	}
}

// What a client was told.
type (
	toldBox struct {
		isolation string
		ended     bool // it was told so
		ending    bool // it asked for that
		file      string
		may       []string // contents whose storing was not confirmed
	}
	toldCode struct {
		box  api.SandboxID
		code int
		at   time.Time
	}
	toldTask struct {
		text    string // what its program prints; empty for one that a model writes
		outcome api.Outcome
	}
)

type stormClient struct {
	*storm
	n      int
	random *rand.Rand
	boxes  map[api.SandboxID]*toldBox
	codes  map[string]toldCode // by the scripts of commands
	tasks  map[api.TaskID]*toldTask
	// calls and failed count by operation; lies are what cannot be.
	calls, failed map[string]int
	lies          []string
}

// any is the client of a random node.
func (c *stormClient) any() *client.Client { return c.shared[c.random.IntN(len(c.shared))] }

// live picks a sandbox that the client has not ended.
func (c *stormClient) live() (api.SandboxID, *toldBox) {
	for _, id := range slices.Sorted(maps.Keys(c.boxes)) {
		if b := c.boxes[id]; !b.ending {
			return id, b
		}
	}
	return "", nil
}

// work works until ctx ends.
func (c *stormClient) work(ctx context.Context) {
	c.calls, c.failed = map[string]int{}, map[string]int{}
	for ctx.Err() == nil {
		id, box := c.live()
		name, do := "create", c.create
		switch dice := c.random.IntN(20); {
		case dice == 0 && len(c.tasks) < 8:
			name, do = "task", c.task
		case dice < 4 && len(c.tasks) < 8:
			name, do = "run", c.run
		case dice < 6 && len(c.tasks) > 0:
			name, do = "look", c.look
		case box == nil:
		case dice < 8:
			name, do = "kill", func(ctx context.Context) error { return c.end(ctx, id, box) }
		case dice < 10 && box.isolation == "container" && len(c.boxes) < 12:
			name, do = "fork", func(ctx context.Context) error { return c.fork(ctx, id) }
		case dice < 14:
			name, do = "file", func(ctx context.Context) error { return c.file(ctx, id, box) }
		default:
			name, do = "exec", func(ctx context.Context) error { return c.exec(ctx, id) }
		}
		select {
		case <-time.After(time.Duration(c.random.IntN(4000)) * time.Millisecond): // a client does more than call
		case <-ctx.Done():
			return
		}
		timed, cancel := context.WithTimeout(ctx, 30*time.Second)
		c.calls[name]++
		if err := do(timed); err != nil {
			c.failed[name]++
			if box != nil && api.KindOf(err) != api.KindTimeout && gone(err) {
				box.ending = true // lost with its node
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		cancel()
	}
}

// gone reports whether an error says that a sandbox has ended.
func gone(err error) bool {
	return strings.Contains(err.Error(), "is lost") || strings.Contains(err.Error(), "is ended") || api.KindOf(err) == api.KindNotFound
}

func (c *stormClient) create(ctx context.Context) error {
	isolation := "process"
	if c.n%3 == 0 {
		isolation = "container"
	}
	s, err := c.any().Sandboxes.Create(ctx, api.CreateSandbox{Isolation: isolation, TTLMS: 3_600_000})
	if err != nil {
		return err
	}
	defer s.Close()
	c.boxes[s.ID()] = &toldBox{isolation: isolation}
	return nil
}

func (c *stormClient) with(ctx context.Context, id api.SandboxID, do func(*client.Sandbox) error) error {
	s, err := c.any().Sandboxes.Get(ctx, string(id))
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

func (c *stormClient) exec(ctx context.Context, id api.SandboxID) error {
	return c.with(ctx, id, func(s *client.Sandbox) error {
		want := c.random.IntN(100)
		script := fmt.Sprintf("echo %d; exit %d # %d-%d", want, want, c.n, c.random.Uint64())
		cmd := s.Command(ctx, "sh", "-c", script)
		var out strings.Builder
		cmd.Stdout = &out
		code, err := exitCode(cmd.Run())
		if err != nil {
			return err
		}
		if c.codes[script] = (toldCode{id, code, time.Now()}); code != want || out.String() != fmt.Sprintln(want) {
			c.lies = append(c.lies, fmt.Sprintf("%s: %d, %q", script, code, out.String()))
		}
		return nil
	})
}

func (c *stormClient) file(ctx context.Context, id api.SandboxID, box *toldBox) error {
	return c.with(ctx, id, func(s *client.Sandbox) error {
		if err := c.read(ctx, s, box); err != nil {
			return err
		}
		text := fmt.Sprint(c.n, "-", c.random.Uint64())
		box.may = append(box.may, text)
		if err := s.WriteFile(ctx, "", "storm", strings.NewReader(text)); err != nil {
			return err
		}
		box.file, box.may = text, nil
		return nil
	})
}

// read compares a file with what was written.
func (c *stormClient) read(ctx context.Context, s *client.Sandbox, box *toldBox) error {
	if box.file == "" {
		return nil
	}
	r, _, err := s.ReadFile(ctx, "", "storm")
	if err != nil {
		if strings.Contains(err.Error(), "no such file") {
			c.lies = append(c.lies, fmt.Sprintf("sandbox %s has no file: %v", s.ID(), err))
		}
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if text := string(b); text != box.file && !slices.Contains(box.may, text) && (text != "" || len(box.may) == 0) {
		c.lies = append(c.lies, fmt.Sprintf("sandbox %s has %q, was told %q, or one of %q", s.ID(), text, box.file, box.may))
	}
	return nil
}

func (c *stormClient) fork(ctx context.Context, id api.SandboxID) error {
	return c.with(ctx, id, func(s *client.Sandbox) error {
		out, err := s.Fork(ctx, api.ForkSandbox{FilesOnly: true})
		if err != nil {
			return err
		}
		for _, child := range out.Children {
			if child.Sandbox != nil {
				c.boxes[child.Sandbox.ID] = &toldBox{isolation: "container"}
			}
		}
		return nil
	})
}

func (c *stormClient) end(ctx context.Context, id api.SandboxID, box *toldBox) error {
	return c.with(ctx, id, func(s *client.Sandbox) error {
		box.ending = true
		if _, err := s.Kill(ctx); err != nil {
			return err
		}
		box.ended = true
		return nil
	})
}

func (c *stormClient) run(ctx context.Context) error {
	text := fmt.Sprint("storm ", c.n, " ", c.random.Uint64())
	t, err := c.any().Tasks.Create(ctx, program(text, c.random.Float64()*3))
	if err == nil {
		c.tasks[t.ID] = &toldTask{text: text}
	}
	return err
}

func (c *stormClient) task(ctx context.Context) error {
	t, err := c.any().Tasks.Create(ctx, api.CreateTask{Request: "Write a Python script that computes the mean and median of a list of numbers", Sandbox: api.CreateSandbox{Isolation: "process"}})
	if err == nil {
		c.tasks[t.ID] = &toldTask{}
	}
	return err
}

// look asks for the outcome of a task.
func (c *stormClient) look(ctx context.Context) error {
	all := slices.Sorted(maps.Keys(c.tasks))
	id := all[c.random.IntN(len(all))]
	t, err := c.any().Tasks.Get(ctx, string(id))
	if err != nil {
		return err
	}
	c.told(t)
	return nil
}

// told compares a task with what was told before.
func (c *stormClient) told(t api.Task) {
	was := c.tasks[t.ID]
	switch {
	case t.State != api.TaskDone && was.outcome != "":
		c.lies = append(c.lies, fmt.Sprintf("task %s was %s and is %s", t.ID, was.outcome, t.State))
	case t.State != api.TaskDone:
	case was.outcome != "" && was.outcome != t.Outcome:
		c.lies = append(c.lies, fmt.Sprintf("task %s was %s and is %s", t.ID, was.outcome, t.Outcome))
	case t.Outcome == api.OutcomeVerified && was.text != "" && (len(t.Attempts) == 0 || t.Attempts[len(t.Attempts)-1].Result == nil || strings.TrimSpace(t.Attempts[len(t.Attempts)-1].Result.Stdout) != was.text):
		c.lies = append(c.lies, fmt.Sprintf("task %s is verified, but did not print %q: %+v", t.ID, was.text, t.Attempts))
	default:
		was.outcome = t.Outcome
	}
}

// aheadFor is longer than rows of commands are in the file of a node alone, on a busy machine.
const aheadFor = time.Second

// diedAfter reports whether a node was killed so soon after an instant that rows from then may be in its file alone.
func (s *storm) diedAfter(at time.Time) bool {
	return slices.ContainsFunc(s.deaths, func(died time.Time) bool { return at.After(died.Add(-aheadFor)) && at.Before(died.Add(aheadFor)) })
}

// audit compares what clients were told with the rows. What a command that ended in the last moment of a node returned is lost with its sandbox, if
// another node took over.
func (s *storm) audit(all []*stormClient) {
	t, ctx := s.t, s.t.Context()
	time.Sleep(aheadFor)
	for i := range s.nodes {
		until(t, "all nodes serve", s.ready(i))
	}
	calls, failed := map[string]int{}, map[string]int{}
	boxes, codes, codesLost, files, outcomes := 0, 0, 0, 0, map[api.Outcome]int{}
	states := map[api.SandboxState]int{}
	// Every task ends.
	deadline := time.Now().Add(patience.Of(3 * time.Minute))
	for _, c := range all {
		for id := range c.tasks {
			for {
				task, err := s.db.Task(ctx, id)
				if err != nil {
					t.Errorf("a task that was made: %v", err)
					break
				}
				if task.State == api.TaskDone {
					c.told(task)
					if outcomes[task.Outcome]++; task.Outcome != api.OutcomeVerified {
						t.Errorf("task %s is %s: %+v", id, task.Outcome, task.Error)
					}
					break
				}
				if time.Now().After(deadline) {
					run, rerr := s.db.Run(ctx, string(id))
					node, nerr := s.db.NodeOfOwner(ctx, run.Owner)
					t.Errorf("task %s is %s, of %s (%s, %v, %v)", id, task.State, run.Owner, node.Name, rerr, nerr)
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			finished, seq := 0, int64(0)
			for after := int64(0); ; {
				page, err := s.db.ReadEvents(ctx, api.Stream{Kind: api.StreamTask, ID: string(id)}, after, 1000)
				world.OK(t, err)
				for _, e := range page {
					if seq++; e.Seq != seq {
						t.Errorf("task %s: event %d has number %d", id, seq, e.Seq)
					}
					if e.Type == api.EventTaskFinished {
						finished++
					}
				}
				if len(page) == 0 {
					break
				}
				after = seq
			}
			if finished != 1 {
				t.Errorf("task %s ended %d times", id, finished)
			}
		}
	}
	for _, c := range all {
		for name, n := range c.calls {
			calls[name] += n
			failed[name] += c.failed[name]
		}
		execs, lost := map[api.SandboxID]map[string]api.Exec{}, map[api.SandboxID]bool{}
		for id, told := range c.boxes {
			boxes++
			row, err := s.db.Sandbox(ctx, id)
			if err != nil {
				t.Errorf("a sandbox that was made: %v", err)
				continue
			}
			states[row.State]++
			if told.ended && !row.State.Final() {
				t.Errorf("sandbox %s was told to have ended, and is %s", id, row.State)
			}
			rows := map[string]api.Exec{}
			for _, x := range world.Must(s.db.ListExecs(ctx, id))(t) {
				if rows[x.Args[len(x.Args)-1]] = x; row.State == api.SandboxLost && x.State == api.ExecRunning {
					t.Errorf("sandbox %s is lost, and its command %s runs", id, x.ID)
				}
			}
			execs[id], lost[id] = rows, row.State == api.SandboxLost
			if row.State == api.SandboxRunning {
				owner := world.Must(s.db.NodeOfOwner(ctx, row.Owner))(t)
				if owner.Owner != row.Owner {
					t.Errorf("sandbox %s runs, and its owner %s is an earlier run of node %s", id, row.Owner, owner.Name)
				}
				err := c.with(ctx, id, func(b *client.Sandbox) error { return c.read(ctx, b, told) })
				if files++; err != nil {
					t.Errorf("sandbox %s is %s, and does not answer: %v", id, row.State, err)
				}
			}
		}
		for script, told := range c.codes {
			codes++
			x := execs[told.box][script]
			if (x.State == "" || x.State == api.ExecUnknown) && lost[told.box] && s.diedAfter(told.at) {
				codesLost++
			} else if x.State != api.ExecExited || x.Exit.Code != told.code {
				t.Errorf("a command in sandbox %s ended with %d: its row is %s, %+v (%q)", told.box, told.code, x.State, x.Exit, script)
			}
		}
		for _, lie := range c.lies {
			t.Error(lie)
		}
	}
	t.Logf("calls: %v; failed: %v", calls, failed)
	t.Logf("audit: %d sandboxes (%v, %d looked at), %d exit codes, of which %d are lost with their nodes, tasks %v", boxes, states, files, codes, codesLost, outcomes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, times := range map[string][]time.Duration{"another node": s.elsewhere, "the next run of the node": s.here} {
		if len(times) == 0 {
			continue
		}
		slices.Sort(times)
		at := func(part int) time.Duration {
			return times[min(len(times)*part/100, len(times)-1)].Round(100 * time.Millisecond)
		}
		late := len(times) - sort.Search(len(times), func(i int) bool { return times[i] > 15*time.Second })
		t.Logf("tasks that went on at %s: %d, after p50 %s, p90 %s, p99 %s, at most %s; %d after more than 15 s", what, len(times), at(50), at(90), at(99), at(100), late)
		if at(100) > patience.Of(45*time.Second) {
			t.Errorf("a task went on %s after its node died", at(100))
		}
	}
}
