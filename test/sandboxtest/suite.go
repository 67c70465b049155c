package sandboxtest

import (
	"context"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// Fixture is a backend under test.
type Fixture struct {
	Backend sandbox.Backend
	// Layers are what sandboxes start from; they hold sh, the usual small tools
	// and python3.
	Layers []layer.Digest
	// Store and Workspaces are those that the backend works with; a backend without
	// workspaces needs none.
	Store      *layer.Store
	Workspaces *workspace.Store
	// Leftovers lists what the backend holds on this host for a sandbox
	// (directories, mounts, cgroups); the suite wants it empty after a kill.
	Leftovers func(id api.SandboxID) []string
	// OwnKernel is true if sandboxes have a kernel that is not the host's.
	OwnKernel bool
	// FullKernel is true if that kernel is a whole Linux: it has every system call, and its files are on a disk.
	FullKernel bool
	// GuestListed is the user who sees the guest in /proc, because another runtime mounts it. The user may then
	// list the numbers of its descriptors and make it the first to end for memory, and no more.
	GuestListed string
	// CPUTime is what the host has counted for a sandbox, where Stats is the guest's own count; nil elsewhere.
	CPUTime func(t *testing.T, id api.SandboxID) time.Duration
	// Filtered is true if a sandbox without a network has an interface all the same, and rules outside of it deny its connections.
	Filtered bool
	// Claimed is true if the backend's every start claims a guest that was booted ahead,
	// as [Ahead] does. Only the cases that depend on that are run, unless T2 is selected.
	Claimed bool
	// Few runs the same cases as Claimed, for a backend whose starts take long.
	Few bool
}

// Case is one check.
type Case struct {
	Name string
	// Claimed is true if the result depends on how the guest came to be: booted for this
	// sandbox, or booted ahead and claimed. The case runs both ways.
	Claimed bool
	// PerUser is true if the result depends on the user of the backend: root, or an
	// ordinary user. See tier.AnyUser for the other cases.
	PerUser bool
	// Alone is true if the case does not run beside other cases, because it compares
	// processor time with the time that passes, or changes this process.
	Alone bool
	// Plain is true if the case runs no program of a root file system. Other cases need
	// api.CapPrograms: they are shell scripts.
	Plain bool
	// Needs lists the capabilities without which the case makes no sense.
	Needs []api.Capability
	Check func(t *testing.T, s *Suite)
}

// Suite is what a case works with.
type Suite struct {
	Fixture
	Report api.BackendReport
}

// Run checks a backend against the contract. new is called once.
func Run(t *testing.T, new func(t *testing.T) Fixture) {
	f := new(t)
	s := &Suite{Fixture: f, Report: f.Backend.Probe(t.Context())}
	if f.Leftovers == nil {
		t.Fatal("sandboxtest: the fixture cannot tell what is left over")
	}
	if !f.Claimed {
		t.Run("documented", func(t *testing.T) { Documented(t, f.Backend, s.Report) })
	}
	for _, c := range Cases() {
		if (f.Claimed || f.Few) && !c.Claimed && !tier.Soaking() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if !c.PerUser {
				tier.AnyUser(t)
			}
			if !c.Alone {
				t.Parallel()
			}
			if a, lacks := c.Lacks(s.Report); lacks {
				t.Skipf("%s lacks %s on this host: %s", f.Backend.Name(), a.Capability, a.Reason)
			}
			c.Check(t, s)
		})
	}
}

// Cases lists every check, in the order of running.
func Cases() []Case {
	var all []Case
	all = append(all, reportCases()...)
	all = append(all, lifeCases()...)
	all = append(all, aheadCases()...)
	all = append(all, commandCases()...)
	all = append(all, limitCases()...)
	all = append(all, wallCases()...)
	all = append(all, linkCases()...)
	all = append(all, egressCases()...)
	all = append(all, portCases()...)
	all = append(all, kernelCases()...)
	all = append(all, workspaceCases()...)
	all = append(all, accessCases()...)
	all = append(all, viewCases()...)
	all = append(all, saveCases()...)
	all = append(all, forkCases()...)
	all = append(all, forkMemoryCases()...)
	all = append(all, saveHostileCases()...)
	all = append(all, expectCases()...)
	all = append(all, trustCases()...)
	return all
}

// spec is a sandbox with the default limits that the backend can enforce.
func (s *Suite) spec() sandbox.Spec {
	return sandbox.Spec{
		ID: api.NewSandboxID(), Layers: s.Layers, Limits: api.DefaultLimits(), Hostname: "sandbox",
		Env: map[string]string{"SANDBOXTEST": "given"}, Egress: sandbox.EgressOf(s.Report),
	}
}

// Sandbox is a started machine and a client of its guest.
type Sandbox struct {
	ID      api.SandboxID
	Machine sandbox.Machine
	Guest   *envd.Client
}

// start boots a machine and sees to it that it is killed, with nothing left.
func (s *Suite) start(t *testing.T, change func(*sandbox.Spec)) *Sandbox {
	t.Helper()
	spec := s.spec()
	if change != nil {
		change(&spec)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	m, err := s.Backend.Start(ctx, spec)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	b := &Sandbox{ID: spec.ID, Machine: m, Guest: envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
	t.Cleanup(func() {
		b.Guest.Close()
		s.kill(t, b)
	})
	return b
}

// kill ends a sandbox and checks the proof.
func (s *Suite) kill(t *testing.T, b *Sandbox) api.Proof {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(60*time.Second))
	defer cancel()
	proof, err := b.Machine.Kill(ctx)
	if err != nil {
		t.Errorf("kill: %v", err)
		return proof
	}
	if proof.Left != 0 || proof.How == "" {
		t.Errorf("kill: proof %+v; want 0 left and how that is known", proof)
	}
	if left := s.Leftovers(b.ID); len(left) > 0 {
		t.Errorf("left after the kill: %q", left)
	}
	return proof
}

// Result is what a command did.
type Result struct {
	Stdout, Stderr string
	End            envd.EndEvent
}

// Code is the exit code.
func (r Result) Code() int { return int(r.End.ExitCode) }

// run runs a command to its end.
func (b *Sandbox) run(t *testing.T, user string, args ...string) Result {
	t.Helper()
	r, err := b.try(t, user, envd.StartOptions{User: user}, args...)
	if err != nil {
		t.Fatalf("run %q: %v", args, err)
	}
	return r
}

// sh runs a shell script as the default identity.
func (b *Sandbox) sh(t *testing.T, script string) Result {
	t.Helper()
	return b.run(t, "", "sh", "-c", script)
}

func (b *Sandbox) try(t *testing.T, user string, opt envd.StartOptions, args ...string) (Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
	defer cancel()
	opt.User = user
	no := false
	ps, err := b.Guest.Start(ctx, &envd.StartRequest{
		Process: &envd.ProcessConfig{Cmd: args[0], Args: args[1:]}, Stdin: &no,
	}, opt)
	if err != nil {
		return Result{}, err
	}
	defer ps.Close()
	var r Result
	for {
		ev, err := ps.Next()
		if err != nil {
			return r, err
		}
		if ev.Data != nil {
			r.Stdout += string(ev.Data.Stdout)
			r.Stderr += string(ev.Data.Stderr)
		}
		if ev.End != nil {
			r.End = *ev.End
			return r, nil
		}
	}
}

// want fails the test when a command did not end with code and stdout.
func (r Result) want(t *testing.T, code int, stdout string) {
	t.Helper()
	if r.Code() != code || r.Stdout != stdout {
		t.Errorf("exit %d, stdout %q, stderr %q; want exit %d, stdout %q", r.Code(), r.Stdout, r.Stderr, code, stdout)
	}
}

// eventually waits for a condition; it fails the test when it stays false.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience.Of(30 * time.Second))
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
