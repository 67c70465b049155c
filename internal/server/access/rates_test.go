package access

import (
	"testing"
	"time"

	"hortus.dev/api"
)

func TestRates(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	r := NewRates(RatesConfig{Requests: 10, Creates: 40, Now: func() time.Time { return now }})
	alice := api.Principal{Account: "a", Key: api.NewKeyID(), Role: api.RoleUser}
	bob := api.Principal{Account: "a", Key: api.NewKeyID(), Role: api.RoleUser}
	for i := range 20 {
		if err := r.request(alice); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for range 3 { // what is refused takes nothing
		err := r.request(alice)
		if api.KindOf(err) != api.KindExhausted || api.RetryAfterOf(err) != 100*time.Millisecond || api.HintOf(err) == "" {
			t.Fatalf("one more: %v, after %s", err, api.RetryAfterOf(err))
		}
	}
	if err := r.Command(alice.Key); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a command of the same key: %v", err)
	}
	if err := r.request(bob); err != nil {
		t.Errorf("another key of the account: %v", err)
	}
	now = now.Add(100 * time.Millisecond)
	if err := r.request(alice); err != nil {
		t.Errorf("after the time that was named: %v", err)
	}
	if err := r.create(alice, 100); err != nil {
		t.Errorf("a large fork: %v", err)
	}
	if err := r.create(alice, 100); err != nil {
		t.Errorf("a second one: %v", err)
	}
	if err := r.create(alice, 100); api.RetryAfterOf(err) != 2500*time.Millisecond {
		t.Errorf("a third one: %v, after %s", err, api.RetryAfterOf(err))
	}
	for range 1000 { // those who are not bounded
		for _, p := range []api.Principal{api.Operator(), {Role: api.RoleAdmin, Key: api.NewKeyID(), Account: "default"}} {
			if r.request(p) != nil || r.create(p, 100) != nil || r.Command("") != nil {
				t.Fatalf("%+v is bounded", p)
			}
		}
	}
	// The least rate lets one through, and the largest fork.
	r = NewRates(RatesConfig{Requests: 0.1, Creates: 0.1})
	if err := r.request(alice); err != nil {
		t.Error(err)
	}
	if err := r.create(alice, api.MaxForks); err != nil {
		t.Error(err)
	}
}

// TestCreatesAreBounded has one key create as fast as it can.
func TestCreatesAreBounded(t *testing.T) {
	m := &table{rows: map[api.SandboxID]api.Sandbox{}}
	s := NewSandboxes(SandboxesConfig{Manager: m, Rates: NewRates(RatesConfig{Creates: 1e-6})})
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
	tasks := NewTasks(nil, m, s.rates)
	if _, err := tasks.Create(flood, api.CreateTask{}); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a task: %v", err)
	}
}
