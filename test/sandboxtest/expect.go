package sandboxtest

import (
	"context"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

// expect begins a machine before its state is saved.
func (s *Suite) expect(t *testing.T) (sandbox.Expected, sandbox.Spec) {
	t.Helper()
	e := s.restorer(t)
	if !e.Capabilities().Expect {
		t.Skipf("%s begins nothing before its state is there", s.Backend.Name())
	}
	spec := s.spec()
	spec.Env = map[string]string{"SANDBOXTEST": "expected"}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
	defer cancel()
	x, err := e.Expect(ctx, spec)
	if err != nil {
		t.Fatalf("expect: %v", err)
	}
	t.Cleanup(x.Drop)
	return x, spec
}

func expectCases() []Case {
	return []Case{
		{Name: "expect/restored", Needs: start1, Check: func(t *testing.T, s *Suite) {
			dir := t.TempDir()
			x, spec := s.expect(t)
			b := s.start(t, nil)
			b.sh(t, "echo before >file").want(t, 0, "")
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
			defer cancel()
			if _, err := b.Machine.Save(ctx, dir, sandbox.SaveOptions{}); err != nil {
				t.Fatalf("save: %v", err)
			}
			m, err := x.Restore(ctx, dir)
			if err != nil {
				t.Fatalf("restore: %v", err)
			}
			c := s.sandbox(t, spec.ID, m)
			if err := m.Claim(ctx, spec.Env); err != nil {
				t.Fatalf("claim: %v", err)
			}
			x.Drop() // which does nothing any more
			c.sh(t, "cat file; echo $SANDBOXTEST").want(t, 0, "before\nexpected\n")
			b.sh(t, "cat file").want(t, 0, "before\n")
			if _, err := x.Restore(ctx, dir); api.KindOf(err) != api.KindConflict {
				t.Errorf("restored twice: %v", err)
			}
		}},
		{Name: "expect/dropped", Needs: start1, Check: func(t *testing.T, s *Suite) {
			x, spec := s.expect(t)
			x.Drop()
			if left := s.Leftovers(spec.ID); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
			if _, err := x.Restore(t.Context(), t.TempDir()); api.KindOf(err) != api.KindConflict {
				t.Errorf("restored after it was dropped: %v", err)
			}
		}},
		{Name: "expect/nothing-was-saved", Needs: start1, Check: func(t *testing.T, s *Suite) {
			x, spec := s.expect(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(120*time.Second))
			defer cancel()
			if m, err := x.Restore(ctx, t.TempDir()); err == nil {
				t.Error("it started from an empty image")
				s.kill(t, s.sandbox(t, spec.ID, m))
			}
			if left := s.Leftovers(spec.ID); len(left) > 0 {
				t.Errorf("left over: %q", left)
			}
		}},
	}
}
