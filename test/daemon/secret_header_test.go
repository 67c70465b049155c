package daemon

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// TestHeaderRules: the requests of programs in real sandboxes have headers with secrets that are not
// in the sandbox, also after a pause. A fork has the rules whose secrets were named.
func TestHeaderRules(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		ctx := v.T.Context()
		value, control := "canary+of/header="+rand.Text(), "control+of/env="+rand.Text()
		set := func() {
			v.T.Helper()
			world.Must(v.Client.Secrets.Set(ctx, "key", secrets.Set{Value: value, ForHeaders: true}))(v.T)
		}
		for _, r := range [][2]string{{"/secrets", `{"name":"key","value":"canary-first-value"}`}, {"/secrets/key", `{"value":"` + value + `"}`}} { // E2B's API
			if status, text := v.Call("POST", r[0], r[1], "X-API-KEY", v.Operator.Secret); status/100 != 2 || strings.Contains(text, "canary") {
				v.T.Fatalf("POST %s: %d %s", r[0], status, text)
			}
		}
		v.Set("bound", v.At("example.com", "/", world.InHeader))
		// For the daemon itself: an admin's key sets it, and no sandbox has it.
		world.Must(v.Client.Secrets.Set(ctx, "model", secrets.Set{Value: "value-of-model"}))(v.T)
		port, _ := strconv.Atoi(v.Out.Port)
		rule := func(host, secret string) api.HeaderRule {
			return api.HeaderRule{Host: host, Port: port, Headers: map[string]string{"Authorization": "Bearer ${secret:" + secret + "}"}}
		}
		for name, kind := range map[string]api.Kind{"bound": api.KindDenied, "model": api.KindDenied, "none": api.KindNotFound} {
			_, err := v.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: v.Isolation, Egress: v.Policy(), Headers: []api.HeaderRule{rule("example.com", name)}})
			if api.KindOf(err) != kind {
				v.T.Errorf("a rule with the secret %s: %v", name, err)
			}
		}
		// A class that is not read otherwise, and a host that no rule of the policy allows.
		policy := v.Policy()
		policy.Rules[0].Class = api.EgressPassthrough
		s := v.Sandbox(api.CreateSandbox{Env: map[string]string{"CONTROL": control}, Egress: policy, Headers: []api.HeaderRule{rule("example.com", "key"), rule("closed.example.com", "key")}})
		world.Needs(v.T, s, "curl", "python3")
		curl := func(s *client.Sandbox, host, more string) (out, seen string) {
			v.T.Helper()
			v.Take()
			out, _ = v.Sh(s, "curl -sS "+more+" https://"+host+":"+v.Out.Port+"/ 2>&1") // it may fail
			return out, v.Take()
		}
		sends := func(when string, s *client.Sandbox, more string) {
			v.T.Helper()
			out, seen := curl(s, "example.com", more)
			if !strings.Contains(seen, "Authorization: Bearer "+value) || strings.Contains(seen, "mine") || strings.Contains(out, value) || !strings.Contains(out, "hello Bearer hortus-redacted") {
				v.T.Errorf("%s: the sandbox got %s, the server got %s", when, out, seen)
			}
		}
		without := func(when string, s *client.Sandbox, host string) {
			v.T.Helper()
			if out, seen := curl(s, host, "-H 'Authorization: mine'"); strings.Contains(seen, value) || !strings.Contains(seen, "Authorization: mine") || !strings.Contains(out, "hello mine") {
				v.T.Errorf("%s: the sandbox got %s, the server got %s", when, out, seen)
			}
		}
		refused := func(when string, s *client.Sandbox, host string) {
			v.T.Helper()
			if out, seen := curl(s, host, ""); strings.Contains(seen, "Host:") || strings.Contains(out, "hello") {
				v.T.Errorf("%s: the sandbox got %s, the server got %s", when, out, seen)
			}
		}
		sends("curl", s, "")
		sends("curl, HTTP/1.1", s, "--http1.1")
		sends("with a header of its own", s, "-H 'Authorization: mine'")
		without("another host", s, "other.example.com")
		refused("a host that is not allowed", s, "closed.example.com")
		if out, seen := func() (string, string) {
			v.Take()
			out, _ := v.Sh(s, "curl -sS http://example.com:"+v.Out.Clear+"/ 2>&1")
			return out, v.Take()
		}(); strings.Contains(seen, value) {
			v.T.Errorf("http: the sandbox got %s, the server got %s", out, seen)
		}
		insideRunning(v, s, value, control, "curl -sS https://example.com:"+v.Out.Port+"/ > /tmp/answer; mv /tmp/answer /tmp/answered; sleep 1000 & wait", func() {})
		uses := 0
		for _, u := range world.All(v.T, v.Client.Secrets.Uses(ctx, secrets.UseFilter{Secret: "key"})) {
			if u.Sandbox != s.ID() || u.Account != v.Operator.Account || u.Header != "Authorization" || u.Refused != "" || u.Host != "example.com" {
				v.T.Errorf("%+v", u)
			}
			uses++
		}
		if uses != 4 {
			v.T.Errorf("%d uses are recorded", uses)
		}
		headersOfForks(v, s, sends, without)

		if v.Isolation == "gvisor" {
			world.Must(s.PauseToDisk(ctx))(v.T)
			if found := holding(v.T, string(v.Dir), value); found != nil {
				v.T.Errorf("paused to disk, the value is in %q", found)
			}
			world.Must(s.Resume(ctx))(v.T)
			sends("after a pause to disk", s, "")
		}
		world.Must(v.Client.Secrets.Remove(ctx, "key"))(v.T)
		refused("after the secret was removed", s, "example.com")
		set()
		sends("after it was set again", s, "")
		// Another policy without the rules.
		world.Must(s.SetEgress(ctx, *v.Policy()))(v.T)
		without("after the rules were replaced", s, "example.com")
	})
}

// insideRunning searches a sandbox for a value that it must not have and one that it has, while a
// script runs that writes /tmp/answered, after which answered is called.
func insideRunning(v *world.Vault, s *client.Sandbox, value, control, script string, answered func()) {
	v.T.Helper()
	ctx, cancel := context.WithCancel(v.T.Context())
	ran := make(chan error, 1)
	running := s.Command(ctx, "sh", "-c", script)
	go func() { ran <- running.Run() }()
	defer func() {
		cancel()
		<-ran
	}()
	world.Eventually(v.T, "the program has its answer", func() bool {
		_, err := v.Sh(s, "test -s /tmp/answered")
		return err == nil
	})
	answered()
	inside(v.T, s, value, control)
}

func headersOfForks(v *world.Vault, s *client.Sandbox, sends func(string, *client.Sandbox, string), without func(string, *client.Sandbox, string)) {
	v.T.Helper()
	plain, named := v.Fork(s), v.Fork(s, "key")
	sends("in a fork that was granted it", named, "")
	if row, err := plain.Info(v.T.Context()); err != nil || len(row.EgressPolicy.Headers) != 0 {
		v.T.Errorf("a fork without it: %+v, %v", row.EgressPolicy, err)
	}
	// Its connections to that host are not read any more: curl needs the certificate of the server.
	v.Take()
	out, _ := v.Sh(plain, "curl -sSk -H 'Authorization: mine' https://example.com:"+v.Out.Port+"/ 2>&1")
	if seen := v.Take(); !strings.Contains(seen, "Authorization: mine") || !strings.Contains(out, "hello mine") {
		v.T.Errorf("in a fork without it: %s, the server got %s", out, seen)
	}
	without("another host, in a fork", named, "other.example.com")
}
