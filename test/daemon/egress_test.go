package daemon

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tools"
	"hortus.dev/test/world"
)

// site is a daemon whose sandboxes reach servers outside.
type site struct {
	*world.World
	out  *world.Outside
	rule api.EgressRule // allows the server over TLS
}

// newSite starts a daemon with servers that say hello.
func newSite(t *testing.T, out *world.Outside, cfg network.Config) *site {
	t.Helper()
	o := &site{out: out, rule: world.Rule("example.com", out.Port)}
	o.World = world.Open(t, world.Config{Outside: out, Config: daemon.Config{Egress: cfg}})
	o.Isolates(t, "")
	return o
}

// hello is a handler that greets.
func hello(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello over " + r.Proto + "\n")) }

// newSandbox creates a sandbox of a client with a policy.
func newSandbox(t *testing.T, c *client.Client, p *api.EgressPolicy) *client.Sandbox {
	t.Helper()
	return world.Sandbox(t, c, api.CreateSandbox{Isolation: "container", Egress: p, Limits: api.Limits{MemoryBytes: 2 << 30}})
}

// lookups is a program whose 64 threads begin to resolve names at the same time, as package managers do.
const lookups = `python3 -c '
import socket, threading
failed, begin = [], threading.Barrier(64)
def resolve():
    begin.wait()
    for _ in range(5):
        try: socket.getaddrinfo("example.com", 443)
        except OSError as e: failed.append(e)
threads = [threading.Thread(target=resolve) for _ in range(64)]
for t in threads: t.start()
for t in threads: t.join()
print(320 - len(failed), "of 320 resolved", set(map(str, failed)))'`

// TestEgressPrograms connects with real programs through terminated TLS, over HTTP/1.1 and
// HTTP/2. None of them is configured for a proxy or a certificate authority.
func TestEgressPrograms(t *testing.T) {
	t.Parallel()
	out := world.NewOutside(t)
	out.HandleFunc("/", hello)
	out.Handle("/git/", http.StripPrefix("/git", gittest.NewServer(t, map[string]string{"project": gittest.NewCheckout(t, map[string]string{"a": "1\n"})})))
	o := newSite(t, out, network.Config{})
	s := newSandbox(t, o.Client, world.Policy(o.rule))
	program := world.Must(os.Open(tools.Program(t, "./test/daemon/testdata/fetch")))(t)
	defer program.Close()
	upload := s.Command(t.Context(), "sh", "-c", "cat > /tmp/fetch && chmod +x /tmp/fetch")
	upload.Stdin = program
	world.OK(t, upload.Run())
	url := "https://example.com:" + out.Port + "/"
	for _, p := range []struct{ name, needs, script, want string }{
		{"curl, HTTP/1.1", "curl", "curl -sS --http1.1 " + url, "hello over"},
		{"curl, HTTP/2", "curl", "curl -sS --http2 -w '%{http_version}' " + url, "2"},
		{"git", "git", "git clone -q " + url + "git/project /tmp/project && git -C /tmp/project log --format=%s", "first"},
		{"python", "python3", "python3 -c 'import urllib.request as u; print(u.urlopen(\"" + url + "\").read().decode())'", "hello over"},
		{"node, HTTP/1.1", "node", "node -e 'require(\"https\").get(\"" + url + "\", r => r.pipe(process.stdout))'", "hello over"},
		{"node, HTTP/2", "node", "node -e 'const c = require(\"http2\").connect(\"" + url + "\"); const r = c.request({\":path\": \"/\"}); r.pipe(process.stdout); r.on(\"end\", () => c.close())'", "hello over"},
		{"a static Go program, HTTP/1.1", "/tmp/fetch", "/tmp/fetch -http1 " + url, "HTTP/1.1 hello over"},
		{"a static Go program, HTTP/2", "/tmp/fetch", "/tmp/fetch " + url, "HTTP/2.0 hello over"},
		{"java", "java", "cat > /tmp/F.java <<'E'\nimport java.net.URI; import java.net.http.*;\npublic class F { public static void main(String[] a) throws Exception {\nvar r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString());\nSystem.out.println(r.version() + \" \" + r.body()); } }\nE\njava /tmp/F.java " + url, "HTTP_2 hello over"},
		{"a proxy that was configured", "curl", "curl -sS -x http://127.0.0.1:3128 " + url, "hello over"},
		{"many lookups at once", "python3", lookups, "320 of 320 resolved"},
	} {
		t.Run(p.name, func(t *testing.T) {
			if out, err := world.Sh(t, s, "command -v "+p.needs); err != nil {
				t.Skipf("the sandbox has no %s %s", p.needs, out)
			}
			out, err := world.Sh(t, s, p.script)
			if err != nil || !strings.Contains(out, p.want) {
				t.Errorf("%v, %q; want %q", err, out, p.want)
			}
			// The control: another name is refused, for this program too.
			if out, err := world.Sh(t, s, strings.ReplaceAll(p.script, "example.com", "example.net")); err == nil && strings.Contains(out, p.want) {
				t.Errorf("example.net answers: %q", out)
			}
		})
	}
}

// TestEgressChanges changes a policy while the sandbox runs, and reads the decisions.
func TestEgressChanges(t *testing.T) {
	t.Parallel()
	out := world.NewOutside(t)
	out.HandleFunc("/", hello)
	o := newSite(t, out, network.Config{})
	c, s := o.Client, newSandbox(t, o.Client, nil)
	fetch := "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://example.com:" + out.Port + "/\").read().decode())'"
	if out, err := world.Sh(t, s, fetch); err == nil {
		t.Errorf("without a policy: %q", out)
	}
	row, err := s.AddEgressRules(t.Context(), o.rule)
	if err != nil || row.Egress != api.EgressRules {
		t.Fatalf("%+v, %v", row, err)
	}
	if out, err := world.Sh(t, s, fetch); err != nil || !strings.Contains(out, "hello") {
		t.Errorf("after it was allowed: %v, %q", err, out)
	}
	world.Must(s.SetEgress(t.Context(), api.EgressPolicy{}))(t)
	if out, err := world.Sh(t, s, fetch); err == nil {
		t.Errorf("after it was denied: %q", out)
	}
	var denied, allowed bool
	for _, d := range world.All(t, c.Egress.All(t.Context(), api.EgressFilter{Sandbox: s.ID()})) {
		if d.Host != "example.com" {
			continue
		}
		denied = denied || d.Result == api.EgressDenied && d.Reason != "" && d.Hint != "" && len(d.Commands) == 1 && strings.Contains(d.Commands[0], "urllib")
		allowed = allowed || d.Result == api.EgressAllowed && d.Rule != "" && d.Status == 200
	}
	if !denied || !allowed {
		t.Errorf("the decisions have a denial: %v; a request that was allowed: %v", denied, allowed)
	}
}

// TestEgressAsk has a connection wait until a person allows it.
func TestEgressAsk(t *testing.T) {
	t.Parallel()
	o := newSite(t, world.NewOutside(t), network.Config{})
	c, s := o.Client, newSandbox(t, o.Client, &api.EgressPolicy{Ask: true})
	fetch := "python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", 3128)); s.sendall(b\"CONNECT example.org:81 HTTP/1.1\\r\\nHost: example.org:81\\r\\n\\r\\n\"); print(s.recv(100))'"
	done := make(chan string, 1)
	go func() {
		out, _ := world.Sh(t, s, fetch)
		done <- out
	}()
	var asks []api.EgressAsk
	world.Eventually(t, "a person is asked", func() bool {
		asks, _ = c.Egress.Asks(t.Context())
		return len(asks) == 1
	})
	if d := asks[0].Decision; d.Host != "example.org" || d.Port != 81 || d.Sandbox != s.ID() {
		t.Errorf("the question is about %+v", d)
	}
	world.OK(t, c.Egress.Answer(t.Context(), asks[0].ID, api.AnswerEgressAsk{Action: api.EgressDeny, Remember: true}))
	if out := <-done; !strings.Contains(out, "403") {
		t.Errorf("after the denial the program got %q", out)
	}
	row, err := s.Info(t.Context())
	if err != nil || row.EgressPolicy == nil || len(row.EgressPolicy.Rules) != 1 || row.EgressPolicy.Rules[0].Host != "example.org" {
		t.Errorf("the remembered rule: %+v, %v", row.EgressPolicy, err)
	}
}

// TestNoNetworkFailsAtOnce: package managers in a sandbox without network do not try again, unless
// the sandbox has a setting of its own, and the record says why they failed.
func TestNoNetworkFailsAtOnce(t *testing.T) {
	t.Parallel()
	o := newSite(t, world.NewOutside(t), network.Config{})
	s := newSandbox(t, o.Client, nil)
	own := world.Sandbox(t, o.Client, api.CreateSandbox{Isolation: "container", Env: map[string]string{"npm_config_fetch_retries": "7", "PIP_RETRIES": "7"}})
	for _, p := range []struct{ name, settings, own, install, again string }{
		{"npm", "npm config get fetch-retries", "7", "cd /tmp && npm install --no-audit --loglevel=http left-pad", "attempt 2"},
		{"pip", "echo $PIP_RETRIES", "7", "pip download -d /tmp --no-cache-dir six", "Retrying"},
	} {
		t.Run(p.name, func(t *testing.T) {
			if out, err := world.Sh(t, s, "command -v "+p.name); err != nil {
				t.Skipf("the sandbox has no %s %s", p.name, out)
			}
			if out := world.Must(world.Sh(t, s, p.settings))(t); strings.TrimSpace(out) != "0" {
				t.Errorf("without network: %q retries", out)
			}
			if out := world.Must(world.Sh(t, own, p.settings))(t); strings.TrimSpace(out) != p.own {
				t.Errorf("with a setting of its own: %q retries", out)
			}
			if out, err := world.Sh(t, s, p.install+" 2>&1"); err == nil || strings.Contains(out, p.again) {
				t.Errorf("install: %v\n%s", err, out)
			}
		})
	}
	// What a daemon forbids itself leaves its sandboxes the one limit with which the kernel runs no handler of the host.
	if out := world.Must(world.Sh(t, s, "awk '/core file/ {print $5, $6}' /proc/self/limits"))(t); out != "1 1\n" {
		t.Errorf("core limits in a sandbox of a daemon: %q", out)
	}
	if out, err := world.Sh(t, s, "python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 443)'"); err == nil {
		t.Errorf("a name was resolved: %s", out)
	}
	for d, err := range o.Client.Egress.All(t.Context(), api.EgressFilter{Sandbox: s.ID(), Host: "example.com"}) {
		if err != nil || d.Result != api.EgressDenied || d.Reason != "the sandbox has no network" || !strings.Contains(d.Hint, "example.com") {
			t.Errorf("%+v, %v", d, err)
		}
		return
	}
	t.Error("the refusal was not recorded")
}
