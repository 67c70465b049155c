package story

import (
	"crypto/rand"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// TestHeaderAfterKill has a sandbox send a secret in the header of a rule before and after its daemon
// is killed. Then the secret is removed.
func TestHeaderAfterKill(t *testing.T) {
	tier.Soak(t) // kills; TestSecretAfterKill has a secret that a daemon adopts
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0")
	server, seen := g.greeter(t, "X-Key")
	value := "canary-" + rand.Text()
	set := func() {
		t.Helper()
		if r := g.input(strings.NewReader(value+"\n"), "secret", "set", "crm", "--for-headers"); r.code != 0 || !strings.Contains(r.stderr, "any host") {
			t.Fatal(r)
		}
	}
	header := server + " X-Key: Bearer ${secret:crm}"
	if r := g.run("sandbox", "create", "--header", header); r.code == 0 || !strings.Contains(r.stderr, "there is no secret") || !strings.Contains(r.stderr, "--for-headers") {
		t.Errorf("without the secret: %s", r)
	}
	if r := g.input(strings.NewReader(value+"\n"), "secret", "set", "crm", "--daemon"); r.code != 0 {
		t.Fatal(r)
	}
	if r := g.run("sandbox", "create", "--header", header); r.code == 0 || !strings.Contains(r.stderr, "for the daemon alone") {
		t.Errorf("with a secret of the daemon's own: %s", r)
	}
	set()
	isolations := g.isolations(t)
	if !tier.Soaking() {
		isolations = isolations[:1] // test/daemon has the rest with gvisor
	}
	for _, isolation := range isolations {
		id := strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--isolation", isolation, "--header", header, "--egress", server+",private"))
		use := func() result {
			t.Helper()
			return g.run("sandbox", "exec", id, "--", "curl", "-sSf", "-x", "http://127.0.0.1:3128", "-H", "X-Key: mine", "https://"+server+"/")
		}
		if r := g.run("sandbox", "exec", id, "--", "sh", "-c", "command -v curl"); r.code != 0 {
			t.Skipf("the sandbox has no curl: %s", r)
		}
		works := func(when string) {
			t.Helper()
			if r := use(); r.code != 0 || r.stdout != "hello Bearer hortus-redacted\n" {
				t.Errorf("%s: %s", when, r)
			}
			if all := seen(); all != "Bearer "+value {
				t.Errorf("%s: the server got %q", when, all)
			}
		}
		refused := func(when string) {
			t.Helper()
			r := use()
			if all := seen(); all != "" || r.code == 0 || strings.Contains(r.stdout, "hello") {
				t.Errorf("%s: the server got %q, %s", when, all, r)
			}
			if out := g.must("secret", "uses", "crm", "--refused", "--json"); !strings.Contains(out, id) || !strings.Contains(out, "does not exist any more") {
				t.Errorf("%s: no record: %s", when, out)
			}
		}
		works("at first")
		if out := g.run("egress", "ls", id); strings.Contains(out.stdout+out.stderr, value) || !strings.Contains(out.stderr, "X-Key: Bearer ${secret:crm}") {
			t.Errorf("egress ls: %s", out)
		}
		g.killDaemon(t)
		works("after the daemon was killed")
		g.must("secret", "rm", "crm")
		refused("after the secret was removed")
		g.killDaemon(t)
		refused("after it was removed and the daemon was killed")
		set()
		works("after it was set again")
		g.must("egress", "set", id, server+",private", "--header", server+" X-Key: plain")
		if r := use(); r.stdout != "hello plain\n" {
			t.Errorf("with another rule: %s", r)
		}
		if all := seen(); all != "plain" {
			t.Errorf("with another rule, the server got %q", all)
		}
		g.must("egress", "set", id, server+",private")
		if r := use(); r.stdout != "hello mine\n" {
			t.Errorf("without a rule: %s", r)
		}
		seen()
		g.must("sandbox", "kill", id)
	}
}
