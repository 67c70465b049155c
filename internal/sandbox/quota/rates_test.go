package quota

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
		if err := r.Request(alice); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for range 3 { // what is refused takes nothing
		err := r.Request(alice)
		if api.KindOf(err) != api.KindExhausted || api.RetryAfterOf(err) != 100*time.Millisecond || api.HintOf(err) == "" {
			t.Fatalf("one more: %v, after %s", err, api.RetryAfterOf(err))
		}
	}
	if err := r.Command(alice.Key); api.KindOf(err) != api.KindExhausted {
		t.Errorf("a command of the same key: %v", err)
	}
	if err := r.Request(bob); err != nil {
		t.Errorf("another key of the account: %v", err)
	}
	now = now.Add(100 * time.Millisecond)
	if err := r.Request(alice); err != nil {
		t.Errorf("after the time that was named: %v", err)
	}
	if err := r.Create(alice, 100); err != nil {
		t.Errorf("a large fork: %v", err)
	}
	if err := r.Create(alice, 100); err != nil {
		t.Errorf("a second one: %v", err)
	}
	if err := r.Create(alice, 100); api.RetryAfterOf(err) != 2500*time.Millisecond {
		t.Errorf("a third one: %v, after %s", err, api.RetryAfterOf(err))
	}
	for range 1000 { // those who are not bounded
		for _, p := range []api.Principal{api.Operator(), {Role: api.RoleAdmin, Key: api.NewKeyID(), Account: "default"}} {
			if r.Request(p) != nil || r.Create(p, 100) != nil || r.Command("") != nil {
				t.Fatalf("%+v is bounded", p)
			}
		}
	}
	// The least rate lets one through, and the largest fork.
	r = NewRates(RatesConfig{Requests: 0.1, Creates: 0.1})
	if err := r.Request(alice); err != nil {
		t.Error(err)
	}
	if err := r.Create(alice, api.MaxForks); err != nil {
		t.Error(err)
	}
}
