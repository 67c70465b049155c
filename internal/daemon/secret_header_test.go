package daemon

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
)

// TestHeaderRules: the requests of programs in real sandboxes have headers with secrets that are not
// in the sandbox, also after a pause. A fork has the rules whose secrets were named.
func TestHeaderRules(t *testing.T) {
	both(t, func(v *vault) {
		ctx := v.t.Context()
		value, control := "canary+of/header="+rand.Text(), "control+of/env="+rand.Text()
		set := func() {
			v.t.Helper()
			if _, err := v.c.Secrets.Set(ctx, "key", secrets.Set{Value: value, ForHeaders: true}); err != nil {
				v.t.Fatal(err)
			}
		}
		v.wire("/secrets", `{"name":"key","value":"canary-first-value"}`)
		v.wire("/secrets/key", `{"value":"`+value+`"}`)
		v.set("bound", v.at("example.com", "/", inHeader))
		if _, err := v.c.Secrets.Set(ctx, "model", secrets.Set{Value: "value-of-model"}); err == nil {
			v.t.Error("an API key set a secret without bindings")
		}
		port, _ := strconv.Atoi(v.port)
		rule := func(host, secret string) api.HeaderRule {
			return api.HeaderRule{Host: host, Port: port, Headers: map[string]string{"Authorization": "Bearer ${secret:" + secret + "}"}}
		}
		for name, kind := range map[string]api.Kind{"bound": api.KindDenied, "none": api.KindNotFound} {
			_, err := v.c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: v.isolation, Egress: v.policy(), Headers: []api.HeaderRule{rule("example.com", name)}})
			if api.KindOf(err) != kind {
				v.t.Errorf("a rule with the secret %s: %v", name, err)
			}
		}
		// A class that is not read otherwise, and a host that no rule of the policy allows.
		policy := v.policy()
		policy.Rules[0].Class = api.EgressPassthrough
		s := v.box(api.CreateSandbox{Env: map[string]string{"CONTROL": control}, Egress: policy, Headers: []api.HeaderRule{rule("example.com", "key"), rule("closed.example.com", "key")}})
		needs(v.t, s, "curl", "python3")
		curl := func(s *client.Sandbox, host, more string) (out, seen string) {
			v.t.Helper()
			v.take()
			out, _ = sh(v.t, s, "curl -sS "+more+" https://"+host+":"+v.port+"/ 2>&1") // it may fail
			return out, v.take()
		}
		sends := func(when string, s *client.Sandbox, more string) {
			v.t.Helper()
			out, seen := curl(s, "example.com", more)
			if !strings.Contains(seen, "Authorization: Bearer "+value) || strings.Contains(seen, "mine") || strings.Contains(out, value) || !strings.Contains(out, "hello Bearer hortus-redacted") {
				v.t.Errorf("%s: the sandbox got %s, the server got %s", when, out, seen)
			}
		}
		without := func(when string, s *client.Sandbox, host string) {
			v.t.Helper()
			if out, seen := curl(s, host, "-H 'Authorization: mine'"); strings.Contains(seen, value) || !strings.Contains(seen, "Authorization: mine") || !strings.Contains(out, "hello mine") {
				v.t.Errorf("%s: the sandbox got %s, the server got %s", when, out, seen)
			}
		}
		refused := func(when string, s *client.Sandbox, host string) {
			v.t.Helper()
			if out, seen := curl(s, host, ""); strings.Contains(seen, "Host:") || strings.Contains(out, "hello") {
				v.t.Errorf("%s: the sandbox got %s, the server got %s", when, out, seen)
			}
		}
		sends("curl", s, "")
		sends("curl, HTTP/1.1", s, "--http1.1")
		sends("with a header of its own", s, "-H 'Authorization: mine'")
		without("another host", s, "other.example.com")
		refused("a host that is not allowed", s, "closed.example.com")
		if out, seen := func() (string, string) {
			v.take()
			out, _ := sh(v.t, s, "curl -sS http://example.com:"+v.clear+"/ 2>&1")
			return out, v.take()
		}(); strings.Contains(seen, value) {
			v.t.Errorf("http: the sandbox got %s, the server got %s", out, seen)
		}
		v.insideRunning(s, value, control, "curl -sS https://example.com:"+v.port+"/ > /tmp/answer; mv /tmp/answer /tmp/answered; sleep 1000 & wait")
		uses := 0
		for u, err := range v.c.Secrets.Uses(ctx, secrets.UseFilter{Secret: "key"}) {
			if err != nil {
				v.t.Fatal(err)
			}
			if u.Sandbox != s.ID() || u.Account != v.w.operator.Account || u.Header != "Authorization" || u.Refused != "" || u.Host != "example.com" {
				v.t.Errorf("%+v", u)
			}
			uses++
		}
		if uses != 4 {
			v.t.Errorf("%d uses are recorded", uses)
		}
		v.headersOfForks(s, sends, without)

		if v.isolation == "gvisor" {
			if _, err := s.PauseToDisk(ctx); err != nil {
				v.t.Fatal(err)
			}
			if found := holding(v.t, string(v.w.s.dir), value); found != nil {
				v.t.Errorf("paused to disk, the value is in %q", found)
			}
			if _, err := s.Resume(ctx); err != nil {
				v.t.Fatal(err)
			}
			sends("after a pause to disk", s, "")
		}
		if _, err := v.c.Secrets.Remove(ctx, "key"); err != nil {
			v.t.Fatal(err)
		}
		refused("after the secret was removed", s, "example.com")
		set()
		sends("after it was set again", s, "")
		// Another policy without the rules.
		if _, err := s.SetEgress(ctx, *v.policy()); err != nil {
			v.t.Fatal(err)
		}
		without("after the rules were replaced", s, "example.com")
	})
}

// wire makes a request to E2B's API, which must succeed.
func (v *vault) wire(path, body string) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), "POST", v.w.url+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", v.w.operator.Secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 || strings.Contains(string(text), "canary") {
		v.t.Fatalf("POST %s: %d %s %v", path, resp.StatusCode, text, err)
	}
}

// insideRunning searches a sandbox for a value that it must not have and one that it has, while a
// script runs that writes /tmp/answered.
func (v *vault) insideRunning(s *client.Sandbox, value, control, script string) {
	v.t.Helper()
	ctx, cancel := context.WithCancel(v.t.Context())
	ran := make(chan error, 1)
	running := s.Command(ctx, "sh", "-c", script)
	go func() { ran <- running.Run() }()
	defer func() {
		cancel()
		<-ran
	}()
	eventually(v.t, "the program has its answer", func() bool {
		_, err := sh(v.t, s, "test -s /tmp/answered")
		return err == nil
	})
	inside(v.t, s, value, control)
}

func (v *vault) headersOfForks(s *client.Sandbox, sends func(string, *client.Sandbox, string), without func(string, *client.Sandbox, string)) {
	v.t.Helper()
	fork := func(names ...string) *client.Sandbox {
		v.t.Helper()
		out, err := s.Fork(v.t.Context(), api.ForkSandbox{Secrets: names})
		if err != nil || len(out.Children) != 1 || out.Children[0].Error != nil {
			v.t.Fatalf("%+v, %v", out, err)
		}
		child, err := v.c.Sandboxes.Get(v.t.Context(), string(out.Children[0].Sandbox.ID))
		if err != nil {
			v.t.Fatal(err)
		}
		v.t.Cleanup(func() {
			_, _ = child.Kill(context.Background())
			child.Close()
		})
		return child
	}
	plain, named := fork(), fork("key")
	sends("in a fork that was granted it", named, "")
	if row, err := plain.Info(v.t.Context()); err != nil || len(row.EgressPolicy.Headers) != 0 {
		v.t.Errorf("a fork without it: %+v, %v", row.EgressPolicy, err)
	}
	// Its connections to that host are not read any more: curl needs the certificate of the server.
	v.take()
	out, _ := sh(v.t, plain, "curl -sSk -H 'Authorization: mine' https://example.com:"+v.port+"/ 2>&1")
	if seen := v.take(); !strings.Contains(seen, "Authorization: mine") || !strings.Contains(out, "hello mine") {
		v.t.Errorf("in a fork without it: %s, the server got %s", out, seen)
	}
	without("another host, in a fork", named, "other.example.com")
}
