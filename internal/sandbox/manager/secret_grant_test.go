package manager_test

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/manager"
)

// granted returns the grants of a sandbox, those that were taken with "!".
func granted(s api.Sandbox) string {
	var out []string
	for _, g := range s.Secrets {
		if g.Revoked {
			g.Name = "!" + g.Name
		}
		out = append(out, g.Name)
	}
	return strings.Join(out, " ")
}

// TestSecretLifetime: a grant ends a time after the sandbox was created, and its children's ends with it, whatever the
// sandbox does meanwhile and in the next daemon.
func TestSecretLifetime(t *testing.T) {
	clock := time.Now().UTC()
	o := newOutside(t, func(cfg *manager.Config) { cfg.Now = func() time.Time { return clock } })
	ctx := t.Context()
	hour := time.Hour.Milliseconds()
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Secrets: []api.SecretGrant{{Name: "one", LifetimeMS: hour}, {Name: "two"}}})
	end := s.CreatedAt.Add(time.Hour)
	check := func(what string, row api.Sandbox, err error) {
		t.Helper()
		if err != nil || len(row.Secrets) != 2 || row.Secrets[0].EndsAt == nil || !row.Secrets[0].EndsAt.Equal(end) || row.Secrets[1].EndsAt != nil {
			t.Errorf("%s: %+v, %v; want the end %v", what, row.Secrets, err, end)
		}
	}
	check("created", s, nil)
	clock = clock.Add(20 * time.Minute)
	fork := func(names ...string) (api.ForkResult, error) {
		return o.Forker.Fork(ctx, s.ID, api.ForkSandbox{Secrets: names})
	}
	f, err := fork("one", "two")
	if err != nil || f.Children[0].Sandbox == nil {
		t.Fatalf("%+v, %v", f, err)
	}
	check("a fork", *f.Children[0].Sandbox, nil)
	row, err := o.Pauser.PauseToDisk(ctx, s.ID)
	check("paused to disk", row, err)
	row, _, err = o.Sandboxes.Connect(ctx, s.ID, 0)
	check("resumed", row, err)
	row, err = o.Policies.SetEgress(ctx, s.ID, *allowing("a.example"))
	check("with another policy", row, err)

	clock = end
	if _, err := fork("one"); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "ended at") {
		t.Errorf("a fork with a grant that has ended: %v", err)
	}
	if _, err := fork("two"); err != nil {
		t.Errorf("the control: %v", err)
	}
	if _, err := o.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	n := o.next(t)
	row, err = n.Sandboxes.Get(ctx, s.ID)
	check("in the next daemon", row, err)

	for _, ms := range []int64{-1, 999, api.MaxSecretLifetime.Milliseconds() + 1} {
		if _, err := n.Creator.Create(ctx, api.CreateSandbox{Isolation: "fake", Secrets: []api.SecretGrant{{Name: "one", LifetimeMS: ms}}}); api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "lifetime") {
			t.Errorf("a lifetime of %d ms: %v", ms, err)
		}
	}
	for _, g := range []api.SecretGrant{{Name: "one", EndsAt: &end}, {Name: "one", Revoked: true}} {
		if _, err := n.Creator.Create(ctx, api.CreateSandbox{Isolation: "fake", Secrets: []api.SecretGrant{g}}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

// TestRevokeSecret takes secrets from a sandbox in each state.
func TestRevokeSecret(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Egress: allowing("a.example"), Secrets: []api.SecretGrant{{Name: "one"}, {Name: "two"}, {Name: "three"}, {Name: "four"}}})
	revoke := func(name, grants, allows string) {
		t.Helper()
		row, err := o.Policies.RevokeSecret(ctx, s.ID, name)
		if err != nil || granted(row) != grants || hosts(row) != allows {
			t.Errorf("%s: it may use %q, connect to %q, %v", name, granted(row), hosts(row), err)
		}
		if stored := o.rows.sandboxes[s.ID]; granted(stored) != grants || hosts(stored) != allows {
			t.Errorf("%s: the row has %q, %q", name, granted(stored), hosts(stored))
		}
	}
	revoke("two", "one !two three four", "a.example one.example.org three.example.org four.example.org")
	if got := o.server.of(s.ID); !strings.HasSuffix(got, "apply [a.example one.example.org three.example.org four.example.org]") {
		t.Error(got)
	}
	for what, name := range map[string]string{"once more": "two", "one that it never had": "five"} {
		if _, err := o.Policies.RevokeSecret(ctx, s.ID, name); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := o.Forker.Fork(ctx, s.ID, api.ForkSandbox{Secrets: []string{"two"}}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a fork with it: %v", err)
	}
	if f, err := o.Forker.Fork(ctx, s.ID, api.ForkSandbox{Secrets: []string{"one"}}); err != nil || granted(*f.Children[0].Sandbox) != "one" {
		t.Errorf("the control: %+v, %v", f, err)
	}
	// The rules of another policy do not bring it back.
	if row, err := o.Policies.SetEgress(ctx, s.ID, *allowing("b.example")); err != nil || hosts(row) != "b.example one.example.org three.example.org four.example.org" || granted(row) != "one !two three four" {
		t.Errorf("%q, %q, %v", hosts(row), granted(row), err)
	}
	if _, err := o.Sandboxes.Pause(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	revoke("three", "one !two !three four", "b.example one.example.org four.example.org")
	if _, err := o.Sandboxes.Resume(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Pauser.PauseToDisk(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	revoke("one", "!one !two !three four", "b.example four.example.org")
	if _, _, err := o.Sandboxes.Connect(ctx, s.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	n := o.next(t)
	if row, err := n.Sandboxes.Get(ctx, s.ID); err != nil || granted(row) != "!one !two !three four" || hosts(row) != "b.example four.example.org" {
		t.Errorf("in the next daemon: %q, %q, %v", granted(row), hosts(row), err)
	}
	if _, _, err := n.Sandboxes.Kill(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Policies.RevokeSecret(ctx, s.ID, "four"); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("of one that has ended: %v", err)
	}
}

// TestSecretChanged: the policies of sandboxes follow the hosts of their secrets, in each state.
func TestSecretChanged(t *testing.T) {
	o := newOutside(t, nil)
	ctx := t.Context()
	create := func(account string, names ...string) api.Sandbox {
		req := api.CreateSandbox{Isolation: "fake", Account: account, Egress: allowing("a.example")}
		for _, name := range names {
			req.Secrets = append(req.Secrets, api.SecretGrant{Name: name})
		}
		return o.create(t, req)
	}
	live, paused, disk, taken := create("ada", "crm", "other"), create("ada", "crm"), create("ada", "crm"), create("ada", "crm")
	others, without := create("bob", "crm"), create("ada", "other")
	if _, err := o.Sandboxes.Pause(ctx, paused.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Pauser.PauseToDisk(ctx, disk.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Policies.RevokeSecret(ctx, taken.ID, "crm"); err != nil {
		t.Fatal(err)
	}
	want := func(o *outside, s api.Sandbox, allows string) {
		t.Helper()
		if row, err := o.Sandboxes.Get(ctx, s.ID); err != nil || hosts(row) != allows {
			t.Errorf("it may connect to %q, %v; want %q", hosts(row), err, allows)
		}
		if stored := o.rows.sandboxes[s.ID]; hosts(stored) != allows {
			t.Errorf("the row has %q; want %q", hosts(stored), allows)
		}
	}
	change := func(host string) {
		t.Helper()
		o.server.move("ada/crm", host)
		o.Policies.SecretChanged(ctx, "ada", "crm")
	}
	all := func(host string) {
		t.Helper()
		want(o, live, "a.example "+host+" other.example.org")
		want(o, paused, "a.example "+host)
		want(o, disk, "a.example "+host)
		want(o, taken, "a.example")
		want(o, others, "a.example crm.example.org")
		want(o, without, "a.example other.example.org")
	}
	change("new.example.org")
	all("new.example.org")
	if got := o.server.of(live.ID); !strings.HasSuffix(got, "apply [a.example new.example.org other.example.org]") {
		t.Error(got)
	}
	applied := o.server.of(live.ID)
	change("new.example.org") // nothing to change, nothing done
	if got := o.server.of(live.ID); got != applied {
		t.Error(got)
	}
	change("") // it was removed
	all("new.example.org")
	if _, err := o.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	// A daemon that ended before it had changed them: the next one does.
	n := o.nextWith(t, func(f *fakeEgress) { f.move("ada/crm", "last.example.org") })
	eventually(t, "they follow", func() bool {
		for _, s := range []api.Sandbox{live, paused, disk} {
			if row, err := n.Sandboxes.Get(ctx, s.ID); err != nil || !strings.Contains(hosts(row), "last.example.org") || strings.Contains(hosts(row), "new.example.org") {
				return false
			}
		}
		return true
	})
	want(n, taken, "a.example")
	want(n, others, "a.example crm.example.org")
	want(n, without, "a.example other.example.org")
}

// TestSecretChangedMeanwhile: a secret that changes while a sandbox is created.
func TestSecretChangedMeanwhile(t *testing.T) {
	o := newOutside(t, nil)
	o.server.move("/crm", "new.example.org") // after Secrets resolved the old one
	s := o.create(t, api.CreateSandbox{Isolation: "fake", Secrets: []api.SecretGrant{{Name: "crm"}}})
	eventually(t, "it follows", func() bool {
		row, err := o.Sandboxes.Get(t.Context(), s.ID)
		return err == nil && hosts(row) == "new.example.org"
	})
}
