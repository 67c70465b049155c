package access

import (
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
)

// TestCreatesAreBounded has one key create as fast as it can.
func TestCreatesAreBounded(t *testing.T) {
	m := &table{rows: map[api.SandboxID]api.Sandbox{}}
	s := guard(m, quota.NewRates(quota.RatesConfig{Creates: 1e-6}))
	flood, other := user(api.NewKeyID(), api.Ceilings{}), user(api.NewKeyID(), api.Ceilings{})
	made := 0
	for range 3 * api.MaxForks {
		switch _, err := s.Create(flood, api.CreateSandbox{}); {
		case err == nil:
			made++
		case api.KindOf(err) != api.KindExhausted || api.RetryAfterOf(err) <= 0:
			t.Fatal(err)
		}
	}
	if made != api.MaxForks || len(m.rows) != made {
		t.Errorf("%d made, %d rows", made, len(m.rows))
	}
	row, err := s.Create(other, api.CreateSandbox{})
	if err != nil {
		t.Fatalf("another key: %v", err)
	}
	// Each child of a fork counts.
	if _, err := s.Fork(other, row.ID, api.ForkSandbox{Count: api.MaxForks}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a fork of as many as are left, and one more: %v", err)
	}
	if _, err := s.Fork(other, row.ID, api.ForkSandbox{Count: api.MaxForks - 1}); err != nil {
		t.Errorf("a fork of as many as are left: %v", err)
	}
	tasks := NewTasks(nil, m, s.cfg.Rates)
	if _, err := tasks.Create(flood, api.CreateTask{}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a task: %v", err)
	}
}
