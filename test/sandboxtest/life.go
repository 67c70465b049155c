package sandboxtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// everyCapability is what a report must speak of.
var everyCapability = []api.Capability{
	api.CapStart, api.CapIsolated, api.CapRootIdentity, api.CapUserIdentity, api.CapPause,
	api.CapLimitCPU, api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs, api.CapLimitDisk,
	api.CapLimitDiskRate, api.CapLimitOutput, api.CapPrivateFiles, api.CapNoNetwork, api.CapCheckpoint,
	api.CapWorkspace, api.CapEgress, api.CapPool, api.CapAdopt, api.CapPrograms,
}

// wantRefused has Validate refuse a Spec, without anything being there afterwards, and without the
// ID, which a request has not yet. The control is the Spec of all other cases.
func (s *Suite) wantRefused(t *testing.T, name string, spec sandbox.Spec) {
	t.Helper()
	id := spec.ID
	spec.ID = ""
	if err := s.Backend.Validate(t.Context(), spec); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("%s: validate: %v; want kind unsupported", name, err)
	}
	usual := s.spec()
	usual.ID = ""
	if err := s.Backend.Validate(t.Context(), usual); err != nil {
		t.Errorf("validate refuses what is started in all other cases: %v", err)
	}
	if left := s.Leftovers(id); len(left) > 0 {
		t.Errorf("%s: validate left %q", name, left)
	}
}

func reportCases() []Case {
	return []Case{{Name: "report/complete", Plain: true, Check: func(t *testing.T, s *Suite) {
		if s.Report.Backend != s.Backend.Name() {
			t.Errorf("the report is of %q, the backend is %q", s.Report.Backend, s.Backend.Name())
		}
		seen := map[api.Capability]int{}
		for _, a := range s.Report.Abilities {
			seen[a.Capability]++
			if !a.OK && a.Reason == "" {
				t.Errorf("%s is missing without a reason", a.Capability)
			}
		}
		for _, c := range everyCapability {
			if seen[c] != 1 {
				t.Errorf("%s is reported %d times; want once", c, seen[c])
			}
		}
		egress, ok := s.Report.Has(api.CapEgress)
		switch egress.Grade {
		case api.EgressByHost, api.EgressByEngine:
			if !ok {
				t.Errorf("egress is missing and has the grade %q", egress.Grade)
			}
		case api.EgressByNobody:
			if ok {
				t.Error("egress is there, and nobody enforces a policy")
			}
		default:
			t.Errorf("egress has the grade %q", egress.Grade)
		}
		can := s.Backend.Capabilities()
		for c, has := range map[api.Capability]bool{api.CapPool: can.Prepare, api.CapAdopt: can.Adopt} {
			if _, ok := s.Report.Has(c); ok && !has {
				t.Errorf("the report has %s, for which the backend has no method", c)
			}
		}
		if can.Expect && !can.Save {
			t.Error("the backend expects states, and saves none")
		}
		if most := sandbox.StartTimeout(s.Backend); most <= 0 {
			t.Errorf("the start timeout is %v; want more than 0", most)
		}
	}}, {Name: "report/refuses-what-it-lacks", Plain: true, Needs: []api.Capability{api.CapStart}, Check: func(t *testing.T, s *Suite) {
		asks := map[api.Capability]func(*sandbox.Spec){
			api.CapLimitCPU:      func(p *sandbox.Spec) { p.Limits.CPUs, p.Asked.CPUs = 0.5, true },
			api.CapLimitDiskRate: func(p *sandbox.Spec) { p.Limits.DiskWriteRate, p.Asked.DiskRate = 1<<20, true },
			api.CapLimitMemory:   func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Asked.Memory = 256<<20, true },
			api.CapLimitProcs:    func(p *sandbox.Spec) { p.Limits.Processes, p.Asked.Processes = 64, true },
			api.CapLimitDisk:     func(p *sandbox.Spec) { p.Limits.DiskBytes, p.Asked.Disk = 64<<20, true },
		}
		for c, ask := range asks {
			if _, ok := s.Report.Has(c); ok {
				continue
			}
			spec := s.spec()
			ask(&spec)
			s.wantRefused(t, string(c), spec)
			m, err := s.Backend.Start(t.Context(), spec)
			if err == nil {
				m.Kill(context.Background())
				t.Errorf("%s: a limit that the report lacks was accepted", c)
			} else if api.KindOf(err) != api.KindUnsupported {
				t.Errorf("%s: %v (%s); want kind unsupported", c, err, api.KindOf(err))
			}
		}
	}}, {Name: "report/refuses-an-egress-policy-it-cannot-enforce", Plain: true, Needs: []api.Capability{api.CapStart}, Check: func(t *testing.T, s *Suite) {
		for _, egress := range []sandbox.Egress{{}, {Host: true}} {
			if egress == sandbox.EgressOf(s.Report) {
				continue // the policy of all other cases, which wall/no-network attacks
			}
			spec := s.spec()
			spec.Egress = egress
			s.wantRefused(t, "egress "+egress.String(), spec)
			m, err := s.Backend.Start(t.Context(), spec)
			if err == nil {
				m.Kill(context.Background())
			}
			if api.KindOf(err) != api.KindUnsupported {
				t.Errorf("egress %s: %v; want kind unsupported", egress, err)
			}
			if left := s.Leftovers(spec.ID); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		}
	}}}
}

func lifeCases() []Case {
	start := []api.Capability{api.CapStart}
	return []Case{
		{Name: "life/start-and-kill", Claimed: true, PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.sh(t, "echo hello").want(t, 0, "hello\n")
			if b.Machine.Link() != b.Machine.Link() {
				t.Error("Link gives another link at each call")
			}
			s.kill(t, b)
			select {
			case <-b.Machine.Done():
			default:
				t.Error("Done is open after a kill")
			}
			if c := b.Machine.Cause(); c != "" {
				t.Errorf("cause %q after a kill; want none", c)
			}
			s.kill(t, b) // again
			if c, err := b.Machine.Link().Open(t.Context()); err == nil {
				c.Close()
				t.Error("the link opens after a kill")
			}
		}},
		{Name: "life/kill-takes-every-descendant", Claimed: true, PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			// Double fork into a session of its own, deaf to every signal that
			// can be ignored.
			b.sh(t, `n=1000.$$
for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP INT QUIT; sleep $0 & sleep $0' $n >/dev/null 2>&1 & done
until [ "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -A1 -x sleep | grep -cx $n)" = 6 ]; do sleep 0.01; done`).want(t, 0, "")
			proof := s.kill(t, b)
			if proof.Killed != -1 && proof.Killed < 7 {
				t.Errorf("killed %d; want the guest and its descendants", proof.Killed)
			}
		}},
		{Name: "life/kill-at-once", Plain: true, Claimed: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() { b.Machine.Kill(context.Background()) })
			}
			wg.Wait()
			s.kill(t, b)
		}},
		{Name: "life/canceled-start-leaves-nothing", Plain: true, Claimed: true, PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			for i := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*500*time.Microsecond)
				spec := s.spec()
				m, err := s.Backend.Start(ctx, spec)
				cancel()
				if err == nil {
					if _, err := m.Kill(context.Background()); err != nil {
						t.Errorf("kill: %v", err)
					}
				}
				if left := s.Leftovers(spec.ID); len(left) > 0 {
					t.Fatalf("start cut after %d00 us (error %v) left %q", 5*i, err, left)
				}
			}
		}},
		{Name: "life/unknown-layer", Plain: true, Needs: []api.Capability{api.CapStart, api.CapPrivateFiles}, Check: func(t *testing.T, s *Suite) {
			spec := s.spec()
			spec.Layers = append(spec.Layers[:0:0], "sha256-"+"00000000000000000000000000000000")
			m, err := s.Backend.Start(t.Context(), spec)
			if err == nil {
				m.Kill(context.Background())
				t.Fatal("a layer that does not exist was accepted")
			}
			if left := s.Leftovers(spec.ID); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		}},
		{Name: "life/many-at-once", Needs: start, Check: func(t *testing.T, s *Suite) {
			var wg sync.WaitGroup
			for i := range 8 {
				b := s.start(t, nil)
				wg.Go(func() {
					want := fmt.Sprintf("box %d\n", i)
					if got := b.sh(t, "echo box "+fmt.Sprint(i)); got.Stdout != want {
						t.Errorf("got %q; want %q", got.Stdout, want)
					}
				})
			}
			wg.Wait()
		}},
		{Name: "life/reclaim-nothing", Plain: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			proof, err := s.Backend.Reclaim(t.Context(), api.NewSandboxID())
			if err != nil || proof.Left != 0 {
				t.Errorf("reclaim of nothing: %+v, %v", proof, err)
			}
		}},
		{Name: "life/pause", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapPause}, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.sh(t, `(while :; do echo x >> /tmp/ticks; sleep 0.01; done) >/dev/null 2>&1 &`)
			count := func() string { return strings.TrimSpace(b.sh(t, "wc -l < /tmp/ticks").Stdout) }
			eventually(t, "the counter runs", func() bool { return count() != "0" && count() != "" })
			for range 2 {
				if err := b.Machine.Pause(t.Context()); err != nil {
					t.Fatalf("pause: %v", err)
				}
			}
			before, err := b.Machine.Stats(t.Context())
			if err != nil {
				t.Fatalf("stats while paused: %v", err)
			}
			pauseProbe := time.NewTimer(200 * time.Millisecond)
			<-pauseProbe.C
			after, err := b.Machine.Stats(t.Context())
			if err != nil {
				t.Fatalf("stats while paused: %v", err)
			}
			if d := after.CPUTimeMS - before.CPUTimeMS; d > 20 {
				t.Errorf("used %d ms of processor time while paused", d)
			}
			for range 2 {
				if err := b.Machine.Resume(t.Context()); err != nil {
					t.Fatalf("resume: %v", err)
				}
			}
			n := count()
			eventually(t, "the counter goes on", func() bool { return count() != n })
		}},
		{Name: "life/ends-by-itself", PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.sh(t, "sleep 1000 >/dev/null 2>&1 &").want(t, 0, "")
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
			defer cancel()
			if err := b.Guest.SetLifetime(ctx, time.Hour); err != nil {
				if _, ok := s.Report.Has(api.CapIsolated); ok {
					t.Fatal(err)
				}
				return // the guest has its host's processes
			}
			b.sh(t, "true").want(t, 0, "")
			select {
			case <-b.Machine.Done():
				t.Fatalf("it ended within its time: %s", b.Machine.Cause())
			default:
			}
			if err := b.Guest.SetLifetime(ctx, time.Millisecond); err != nil {
				t.Fatal(err)
			}
			select {
			case <-b.Machine.Done():
			case <-ctx.Done():
				t.Error("it does not end by itself")
			}
		}},
		{Name: "life/kill-while-paused", PerUser: true, Needs: []api.Capability{api.CapStart, api.CapPause}, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			if err := b.Machine.Pause(t.Context()); err != nil {
				t.Fatalf("pause: %v", err)
			}
			s.kill(t, b)
		}},
		{Name: "life/stats", PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.sh(t, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
			st, err := b.Machine.Stats(t.Context())
			if err != nil {
				t.Fatalf("stats: %v", err)
			}
			if st.At.IsZero() || st.CPUTimeMS == 0 || st.Processes == 0 || st.MemoryBytes == 0 {
				t.Errorf("stats %+v; want what the sandbox used, or -1", st)
			}
		}},
	}
}
