package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/patience"
)

// leaverMain is a daemon that starts one sandbox, says so, and waits to be killed.
func leaverMain() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	store, err := layer.Open(os.Getenv("STARTER_LAYERS"))
	if err != nil {
		return fail(err)
	}
	cfg := jail.Config{Name: "container", Dir: os.Getenv("STARTER_RUN"), Layers: store}
	spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "left"}
	if dir := os.Getenv("STARTER_WORKSPACES"); dir != "" {
		if cfg.Workspaces, err = workspace.Open(context.Background(), workspace.Config{Dir: dir, Layers: store}); err != nil {
			return fail(err)
		}
		spec.Workspace = &sandbox.Workspace{Layers: []layer.Digest{repoDigest}, Upper: api.WorkspaceID(os.Getenv("STARTER_UPPER"))}
	}
	if ms, err := strconv.ParseInt(os.Getenv("STARTER_CPU_MS"), 10, 64); err == nil {
		spec.Limits.CPUTimeMS = ms
	}
	b, err := jail.New(cfg)
	if err != nil {
		return fail(err)
	}
	m, err := b.Start(context.Background(), spec)
	if err != nil {
		return fail(err)
	}
	if _, err := try(m, request{Args: []string{"/bin/sh", "-c", "echo before >/tmp/mark; setsid sleep 86397.75 >/dev/null 2>&1 &"}}); err != nil {
		return fail(err)
	}
	if os.Getenv("STARTER_PAUSE") != "" {
		if err := m.Pause(context.Background()); err != nil {
			return fail(err)
		}
	}
	fmt.Println("left", spec.ID)
	select {}
}

// left has a daemon start a sandbox, and kills it.
func (e *env) left(t *testing.T, environ ...string) api.SandboxID {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "HORTUS_TEST_CHILD=leaver", "STARTER_LAYERS="+e.layers.Dir(), "STARTER_RUN="+e.dir)
	cmd.Env = append(cmd.Env, environ...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_, id, ok := strings.Cut(strings.TrimSpace(line), "left ")
	if !ok {
		t.Fatalf("the daemon says %q, %v", line, err)
	}
	t.Cleanup(func() {
		if _, err := e.Reclaim(context.Background(), api.SandboxID(id)); err != nil {
			t.Error(err)
		}
	})
	return api.SandboxID(id)
}

// adopt takes a sandbox over; it is killed with the test.
func (e *env) adopt(t *testing.T, id api.SandboxID) sandbox.Adopted {
	t.Helper()
	a, err := e.Adopt(t.Context(), id)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	t.Cleanup(func() { kill(t, a.Machine) })
	return a
}

func TestAdopt(t *testing.T) {
	e := newEnv(t)
	id := e.left(t)
	a := e.adopt(t, id)
	m := a.Machine
	if a.Paused || a.Spec.ID != id || a.Spec.Hostname != "left" || len(a.Spec.Layers) != 1 || a.Spec.Limits != limits() {
		t.Errorf("adopted %+v", a)
	}
	if got := sh(t, m, "user", "cat /tmp/mark; hostname"); got != "before\nleft" {
		t.Errorf("inside is %q", got)
	}
	s, err := m.Stats(t.Context())
	if err != nil || s.Processes < 2 || s.DiskTotalBytes <= 0 || s.DiskUsedBytes <= 0 {
		t.Errorf("stats %+v, %v", s, err)
	}
	// No other sandbox gets its ids.
	other, _ := e.start(t)
	if isRoot() {
		own, got := strings.Fields(sh(t, m, "user", "cat /proc/self/uid_map")), strings.Fields(sh(t, other, "user", "cat /proc/self/uid_map"))
		if own[1] == got[1] {
			t.Errorf("two sandboxes have the ids from %s on", own[1])
		}
	}
	p := kill(t, m)
	if p.Killed < 2 || p.How == "" {
		t.Errorf("proof %+v", p)
	}
	if n := inside(t, "86397.75"); n != 0 {
		t.Errorf("%d processes live on", n)
	}
	if m.Cause() != "" {
		t.Errorf("a kill has the cause %q", m.Cause())
	}
	if _, err := e.Adopt(t.Context(), id); api.KindOf(err) != api.KindNotFound {
		t.Errorf("adopted after its end: %v", err)
	}
	kill(t, other)
	nothingLeft(t, e)
}

// TestAdoptedEnds: the end of a guest that is nobody's child here is seen, with its
// status where the kernel tells.
func TestAdoptedEnds(t *testing.T) {
	e := newEnv(t)
	m := e.adopt(t, e.left(t)).Machine
	try(m, request{Func: "exit"})
	select {
	case <-m.Done():
	case <-time.After(patience.Of(20 * time.Second)):
		t.Fatal("the end of the guest is not seen")
	}
	if c := m.Cause(); !strings.Contains(c, "exit status 7") && !strings.Contains(c, "went to another process") {
		t.Errorf("the cause is %q", c)
	}
	kill(t, m)
	nothingLeft(t, e)
}

func TestAdoptPaused(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	a := e.adopt(t, e.left(t, "STARTER_PAUSE=1"))
	if !a.Paused {
		t.Fatal("it is not found paused")
	}
	if _, err := a.Machine.Link().Open(t.Context()); api.KindOf(err) != api.KindConflict {
		t.Errorf("a stream to a paused sandbox: %v", err)
	}
	if err := a.Machine.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, a.Machine, "user", "cat /tmp/mark"); got != "before" {
		t.Errorf("it holds %q", got)
	}
	// And one that is killed as it stands.
	b := e.adopt(t, e.left(t, "STARTER_PAUSE=1"))
	kill(t, b.Machine)
	kill(t, a.Machine)
	nothingLeft(t, e)
}

// TestAdoptSavesFiles: what a sandbox wrote before and after is saved.
func TestAdoptSavesFiles(t *testing.T) {
	e := newEnv(t)
	saves(t, e)
	m := e.adopt(t, e.left(t)).Machine
	sh(t, m, "user", "echo after >/tmp/mark2")
	if !isRoot() {
		_, err := m.Save(t.Context(), t.TempDir(), sandbox.SaveOptions{Files: true})
		if api.KindOf(err) != api.KindUnsupported && err != nil {
			t.Errorf("%v", err)
		}
		return
	}
	got := sh(t, e.restored(t, save(t, m, sandbox.SaveOptions{Files: true})), "user", "cat /tmp/mark /tmp/mark2")
	if got != "before\nafter" {
		t.Errorf("the saved one has %q", got)
	}
}

func TestAdoptWatchesTime(t *testing.T) {
	e := newEnv(t)
	if a, ok := e.Probe(t.Context()).Has(api.CapLimitCPUTime); !ok {
		t.Skip(a.Reason)
	}
	m := e.adopt(t, e.left(t, "STARTER_CPU_MS=700")).Machine
	go try(m, request{Args: []string{"/bin/sh", "-c", "while :; do :; done"}})
	select {
	case <-m.Done():
	case <-time.After(patience.Of(60 * time.Second)):
		t.Fatal("it is not ended at its limit of processor time")
	}
	if m.Cause() != api.CauseCPUTime {
		t.Errorf("the cause is %q", m.Cause())
	}
}

// TestAdoptWorkspace: a durable workspace stays its one writer's.
func TestAdoptWorkspace(t *testing.T) {
	e := newEnv(t)
	b, w := withWorkspaces(t, e, 1)
	if a, ok := b.Probe(t.Context()).Has(api.CapWorkspace); !ok {
		t.Skip(a.Reason)
	}
	dir := filepath.Join(t.TempDir(), "spaces")
	s, err := workspace.Open(t.Context(), workspace.Config{Dir: dir, Layers: e.layers})
	if err != nil {
		t.Fatal(err)
	}
	upper, err := s.Create(t.Context(), "", w.Layers)
	if err != nil {
		t.Fatal(err)
	}
	next, err := jail.New(jail.Config{Name: "container", Dir: e.dir, Layers: e.layers, Workspaces: s, Space: space.New(space.Config{Dir: s.Dir(), FloorBytes: 1})})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	id := e.left(t, "STARTER_WORKSPACES="+dir, "STARTER_UPPER="+string(upper))
	if _, err := s.Lease(t.Context(), upper); api.KindOf(err) != api.KindConflict {
		t.Fatalf("a second writer before: %v", err)
	}
	a, err := next.Adopt(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer kill(t, a.Machine)
	if a.Spec.Workspace == nil || a.Spec.Workspace.Upper != upper {
		t.Errorf("adopted %+v", a.Spec.Workspace)
	}
	sh(t, a.Machine, "user", "echo kept >/workspace/file")
	if _, err := s.Lease(t.Context(), upper); api.KindOf(err) != api.KindConflict {
		t.Errorf("a second writer: %v", err)
	}
	kill(t, a.Machine)
	l, err := s.Lease(t.Context(), upper)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	if b, err := os.ReadFile(filepath.Join(dir, string(upper), "upper/file")); err != nil || string(b) != "kept\n" {
		t.Errorf("the workspace has %q, %v", b, err)
	}
}

// TestLeave: a backend that releases its machines and closes leaves them running.
func TestLeave(t *testing.T) {
	e := newEnv(t)
	first := e.backend(t)
	m, err := first.Start(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "x"})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := e.Orphans(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatalf("%v, %v", ids, err)
	}
	sh(t, m, "user", "echo before >/tmp/mark")
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil { // it waits for every machine
		t.Fatal(err)
	}
	a := e.adopt(t, ids[0])
	if got := sh(t, a.Machine, "user", "cat /tmp/mark"); got != "before" {
		t.Errorf("it holds %q", got)
	}
	// Once more, from one that was taken over.
	if err := a.Machine.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := e.adopt(t, ids[0])
	if got := sh(t, b.Machine, "user", "cat /tmp/mark"); got != "before" {
		t.Errorf("it holds %q", got)
	}
	kill(t, b.Machine)
	nothingLeft(t, e)
}

// TestAdoptProves attacks the proof: a record that is whole but of another process is
// refused, and that process lives on. Its control is TestAdopt.
func TestAdoptProves(t *testing.T) {
	e := newEnv(t)
	victim := exec.Command("/usr/bin/sleep", "3600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = victim.Wait(); close(ended) }()
	defer func() { _ = victim.Process.Kill(); <-ended }()
	id := e.left(t)
	record := filepath.Join(e.dir, string(id), "machine")
	whole, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		kind   api.Kind
	}{
		{"another process", func(r map[string]any) { r["pid"], r["start"] = victim.Process.Pid, startOf(t, victim.Process.Pid) }, api.KindConflict},
		{"a number that was used again", func(r map[string]any) {
			// The two may have started within one tick of the clock.
			r["pid"], r["start"] = victim.Process.Pid, startOf(t, victim.Process.Pid)+1
		}, api.KindNotFound},
		{"a start that was another", func(r map[string]any) { r["start"] = 1 }, api.KindNotFound},
		{"an earlier run of the machine", func(r map[string]any) { r["boot"] = strings.Repeat("0", 36) }, api.KindNotFound},
		{"another backend", func(r map[string]any) { r["backend"] = "gvisor" }, api.KindConflict},
		{"groups that are none", func(r map[string]any) {
			r["groups"] = map[string]any{"parents": []string{"/etc"}, "controllers": map[string]string{"memory": "/etc"}}
		}, api.KindConflict},
	} {
		if err := os.WriteFile(record, changed(t, whole, c.change), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := e.Adopt(t.Context(), id); api.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%s); want %s", c.name, err, api.KindOf(err), c.kind)
			if err == nil {
				kill(t, a.Machine)
			}
		}
	}
	select {
	case <-ended:
		t.Error("a process that is no sandbox's was killed")
	default:
	}
	if isRoot() { // a range of ids that is another's
		if err := os.WriteFile(record, changed(t, whole, func(r map[string]any) { r["range"] = 4000 }), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Adopt(t.Context(), id); api.KindOf(err) != api.KindConflict {
			t.Errorf("a range of ids that is not its own: %v", err)
		}
	}
	// What was refused is as it was.
	if err := os.WriteFile(record, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	m := e.adopt(t, id).Machine
	if got := sh(t, m, "user", "cat /tmp/mark"); got != "before" {
		t.Errorf("it holds %q", got)
	}
	// Nobody else can have it meanwhile.
	if _, err := e.Adopt(t.Context(), id); isRoot() && api.KindOf(err) != api.KindConflict {
		t.Errorf("adopted twice: %v", err)
	}
	kill(t, m)
	nothingLeft(t, e)
}

// TestAdoptUnderLeases: while sandboxes are taken over others are started by another
// daemon, and no two have the same ids.
func TestAdoptUnderLeases(t *testing.T) {
	e := newEnv(t)
	if !isRoot() {
		t.Skip("an ordinary user's sandboxes have one id")
	}
	ids := []api.SandboxID{e.left(t), e.left(t), e.left(t)}
	other, err := jail.New(jail.Config{Name: "container", Dir: filepath.Join(t.TempDir(), "run"), Layers: e.layers})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	machines := make([]sandbox.Machine, 2*len(ids))
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { machines[i] = e.adopt(t, ids[i]).Machine })
		wg.Go(func() {
			m, err := other.Start(t.Context(), sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "x"})
			if err != nil {
				t.Error(err)
				return
			}
			machines[len(ids)+i] = m
		})
	}
	wg.Wait()
	had := map[string]bool{}
	for _, m := range machines {
		if m == nil {
			continue
		}
		from := strings.Fields(sh(t, m, "user", "cat /proc/self/uid_map"))[1]
		if had[from] {
			t.Errorf("two sandboxes have the ids from %s on", from)
		}
		had[from] = true
		defer kill(t, m)
	}
	if len(had) != len(machines) {
		t.Errorf("%d of %d sandboxes live", len(had), len(machines))
	}
}
