package story

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/test/archivetest"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
)

// hanging is a model that never answers. asked is closed with the first request.
func hanging(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	first, over := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(first) })
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ask()
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() { close(over); s.Close() })
	return s.URL, first
}

// TestFleetAfterDeath: what commands say of a sandbox, a session and a task, with which exit codes, when the node that has them has just been killed, and when the others have taken
// over. Those about what continues wait for that.
func TestFleetAfterDeath(t *testing.T) {
	tier.Soak(t)
	g := newFleet(t, &fleetServers{database: postgrestest.Start(t), archive: archivetest.Gateway(t)})
	model, asked := hanging(t)
	g.reach(model)
	g.env = append(g.env, "HORTUS_ISOLATION=container", "ANTHROPIC_API_KEY=key", "ANTHROPIC_BASE_URL="+model)
	g.must("sandbox", "ls") // starts the nodes
	nodes := g.members()
	lives, dies := nodes[0], nodes[2]
	box := ""
	until(t, "a sandbox is on node n3", func() string {
		id := strings.TrimSpace(lives.must("sandbox", "create", "--ttl", "1h"))
		if s := decode[api.Sandbox](t, lives.must("sandbox", "show", id, "--json")); s.Node != "n3" {
			return "the last one is on node " + s.Node
		}
		box = id
		return ""
	})
	dies.must("session", "send", "talk", "--model", "anthropic", "--detach", "say hello")
	<-asked
	task := string(decode[session.Session](t, lives.must("session", "show", "talk", "--json")).Turns[0].Task)
	follow := func(args ...string) func() result {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		cmd := lives.command(ctx, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return sync.OnceValue(func() result { err := cmd.Wait(); return result{stdout.String(), stderr.String(), exitOf(t, err)} })
	}
	command := follow("sandbox", "exec", box, "--", "sh", "-c", "touch /tmp/begun; sleep 600")
	watch := follow("task", "watch", task)
	lives.must("sandbox", "exec", box, "--", "sh", "-c", "until test -e /tmp/begun; do sleep 0.1; done")

	if err := unix.Kill(daemonOf(dies.dir), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	says := func(what string, r result, code int, want string) {
		t.Helper()
		if r.code != code || !regexp.MustCompile(want).MatchString(r.stdout+r.stderr) {
			t.Errorf("%s: want exit %d and %s: %s", what, code, want, r)
		}
	}
	type said struct {
		args string
		code int
		want string
	}
	all := func(list []said) {
		t.Helper()
		for i, s := range list {
			says(s.args, nodes[i%2].run(strings.Fields(s.args)...), s.code, s.want)
		}
	}
	lost := `lost +container .* n3 +node n3 ended, or could not reach the database`
	all([]said{ // at once: the lease may have ended by then
		{"sandbox exec " + box + " -- true", 125, `(is on node n3, which does not answer|is lost \(node n3 ended).*\n  next: `},
		{"sandbox resume " + box, 1, `(is on node n3, which does not answer|is lost \(node n3 ended).*\n  next: `},
		{"sandbox ls --all", 0, box + ` +(running +container .* n3|` + lost + `)`},
		{"task ls", 0, task},
		{"task show " + task, 0, `state +running`},
		{"session show talk", 0, `1 +running`},
		{"session send talk --detach more", 0, `turn 2 of session talk runs in the background`},
		{"task cancel " + task, 0, `cancel`},
	})
	says("a command that ran", command(), 125, `(connection to sandbox `+box+` on node n3 broke off; it is not known whether|node n3 ended, or could not reach the database)`)
	says("a task that is watched", watch(), 130, `continues on node n[12], because node n3 ended or could not reach the database`)
	until(t, "the sandbox is lost", func() string {
		s := decode[api.Sandbox](t, lives.must("sandbox", "show", box, "--json"))
		return map[bool]string{false: string(s.State)}[s.State == api.SandboxLost]
	})
	all([]said{
		{"sandbox ls --all", 0, box + " +" + lost},
		{"sandbox show " + box, 0, `state +lost\nreason +node n3 ended, or could not reach the database\nnode +n3`},
		{"sandbox exec " + box + " -- true", 125, `is lost \(node n3 ended, or could not reach the database\)\n  next: create another sandbox`},
		{"sandbox logs " + box, 1, `is lost \(node n3 ended, or could not reach the database\)\n  next: create another sandbox`},
		{"sandbox resume " + box, 1, `is lost \(node n3 ended, or could not reach the database\)\n  next: create another sandbox`},
		{"task show " + task, 0, `moved +\S+: continues on node n[12], because node n3 ended or could not reach the database`},
		{"fleet ls", 0, `n3 +\S+ +gone`},
	})
	dies.must("sandbox", "ls") // it ends what is left of its sandboxes
	lives.must("session", "close", "talk")
}
