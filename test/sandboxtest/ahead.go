package sandboxtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// prepare boots a guest ahead, and skips the case where the backend cannot.
func (s *Suite) prepare(t *testing.T) (*Sandbox, sandbox.Machine) {
	t.Helper()
	if !s.Backend.Capabilities().Prepare {
		t.Skipf("%s boots no guest ahead", s.Backend.Name())
	}
	spec := s.spec()
	spec.Env = nil
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	m, err := s.Backend.Prepare(ctx, spec)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	b := &Sandbox{ID: spec.ID, Machine: m, Guest: envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
	t.Cleanup(func() {
		b.Guest.Close()
		s.kill(t, b)
	})
	return b, m
}

func aheadCases() []Case {
	start := []api.Capability{api.CapStart}
	return []Case{
		{Name: "ahead/claim", PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b, m := s.prepare(t)
			r, err := b.try(t, "", envd.StartOptions{WarmUp: true}, "sh", "-c", "echo warm $GIVEN")
			if err != nil {
				t.Fatal(err)
			}
			r.want(t, 0, "warm\n")
			// What is not a warm-up waits for the claim, and then sees what came
			// with it, however early it was asked.
			type answer struct {
				r   Result
				err error
			}
			early := make(chan answer, 1)
			go func() {
				r, err := b.try(t, "", envd.StartOptions{}, "sh", "-c", "echo $GIVEN")
				early <- answer{r, err}
			}()
			select {
			case a := <-early:
				t.Errorf("a command ran before the claim: %+v, %v", a.r, a.err)
			case <-time.After(50 * time.Millisecond):
			}
			if err := m.Claim(t.Context(), map[string]string{"GIVEN": "at the claim"}); err != nil {
				t.Fatal(err)
			}
			a := <-early
			if a.err != nil {
				t.Fatal(a.err)
			}
			a.r.want(t, 0, "at the claim\n")
			if err := m.Claim(t.Context(), nil); api.KindOf(err) != api.KindConflict {
				t.Errorf("a second claim: %v", err)
			}
			b.sh(t, "echo $GIVEN").want(t, 0, "at the claim\n")
		}},
		{Name: "ahead/claim-without-an-environment", Needs: start, Check: func(t *testing.T, s *Suite) {
			b, m := s.prepare(t)
			if err := m.Claim(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			b.sh(t, "echo lives").want(t, 0, "lives\n")
		}},
		{Name: "ahead/canceled-claim", Needs: start, Check: func(t *testing.T, s *Suite) {
			b, m := s.prepare(t)
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := m.Claim(canceled, nil); api.KindOf(err) != api.KindCanceled {
				t.Errorf("a canceled claim: %v (%s)", err, api.KindOf(err))
			}
			late, cancel := context.WithTimeout(t.Context(), 0)
			defer cancel()
			if err := m.Claim(late, nil); api.KindOf(err) != api.KindTimeout {
				t.Errorf("a claim that comes late: %v (%s)", err, api.KindOf(err))
			}
			if err := m.Claim(t.Context(), map[string]string{"GIVEN": "at last"}); err != nil {
				t.Fatal(err)
			}
			b.sh(t, "echo $GIVEN").want(t, 0, "at last\n")
		}},
		{Name: "ahead/killed-while-it-waits", Plain: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b, m := s.prepare(t)
			s.kill(t, b)
			if err := m.Claim(t.Context(), nil); err == nil {
				t.Error("a dead guest was claimed")
			}
		}},
		{Name: "ahead/claim-that-is-too-long", Plain: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			_, m := s.prepare(t)
			long := make([]byte, 1<<20)
			for i := range long {
				long[i] = 'x'
			}
			if err := m.Claim(t.Context(), map[string]string{"LONG": string(long)}); api.KindOf(err) != api.KindInvalid {
				t.Errorf("%v", err)
			}
		}},
		{Name: "ahead/canceled-prepare-leaves-nothing", Plain: true, PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			if !s.Backend.Capabilities().Prepare {
				t.Skipf("%s boots no guest ahead", s.Backend.Name())
			}
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				spec := s.spec()
				spec.Env = nil
				m, err := s.Backend.Prepare(ctx, spec)
				cancel()
				if err == nil {
					if _, err := m.Kill(context.Background()); err != nil {
						t.Errorf("kill: %v", err)
					}
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				if left := s.Leftovers(spec.ID); len(left) > 0 {
					t.Fatalf("prepare cut after %d ms (error %v) left %q", i, err, left)
				}
			}
		}},
	}
}

// Ahead is a backend whose every start is a guest that was booted ahead and then
// claimed: what holds for a start must hold for a claim.
type Ahead struct{ sandbox.Backend }

// Start prepares a guest and claims it.
func (a Ahead) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	if spec.Workspace != nil {
		return a.Backend.Start(ctx, spec) // for which none is ever booted ahead
	}
	env := spec.Env
	spec.Env = nil
	m, err := a.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := m.Claim(ctx, env); err != nil {
		m.Kill(context.WithoutCancel(ctx))
		return nil, err
	}
	return m, nil
}
