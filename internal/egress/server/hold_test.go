package server

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/authority"
	"hortus.dev/internal/egress/broker"
	"hortus.dev/internal/egress/dial"
	"hortus.dev/internal/egress/gateway"
	"hortus.dev/internal/sandbox/tether"
)

// counted counts what is looked up.
type counted struct {
	*kept
	lookups atomic.Int64
}

func (c *counted) Lookup(ctx context.Context, account, name string) (secrets.Secret, error) {
	c.lookups.Add(1)
	return c.kept.Lookup(ctx, account, name)
}

// mute is a link to a guest that answers nothing.
type mute struct {
	tether.Link
	opened func()
}

func (m mute) Open(context.Context) (net.Conn, error) {
	m.opened()
	return nil, errors.New("the guest does not answer")
}

func (m mute) Accept(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

type noRecords struct{}

func (noRecords) Record(api.EgressDecision) {}

// TestTakenBeforeTheGuest: what a sandbox may use no more is taken before its guest is asked for anything, which could
// delay it.
func TestTakenBeforeTheGuest(t *testing.T) {
	bindings := []secrets.Binding{{Host: "api.example.org", In: secrets.Place{Kind: secrets.InBasic}}}
	c := &counted{kept: &kept{all: map[string]secrets.Secret{"ada/crm": {Name: "crm", Bindings: bindings}}}}
	ca, err := authority.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	dialer := dial.New(dial.Config{})
	s := New(Config{
		Secrets: c, Authority: ca,
		Gateway: gateway.New(gateway.Config{Dialer: dialer, Authority: ca, Recorder: noRecords{}, Broker: NewBroker(c, dialer, nil, nil, nil)}),
	})
	asked := 0
	link := mute{opened: func() {
		if asked++; c.lookups.Load() != int64(asked) {
			t.Errorf("the guest is asked after %d lookups, the %d. time", c.lookups.Load(), asked)
		}
	}}
	row := api.Sandbox{
		ID: "i1", Account: "ada", Secrets: []api.SecretGrant{{Name: "crm"}}, Env: map[string]string{"CRM": broker.NewPlaceholder()},
		EgressPolicy: &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "api.example.org"}}},
	}
	one := s.Serve(row, link, nil)
	defer one.Close()
	for range 2 {
		if err := one.Apply(t.Context(), *row.EgressPolicy); err == nil {
			t.Error("it was applied without the guest")
		}
		row.Secrets[0].Revoked = true
		one.Hold(row)
	}
	if asked != 2 {
		t.Errorf("the guest was asked %d times", asked)
	}
}
