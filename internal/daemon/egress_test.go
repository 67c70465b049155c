package daemon

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/network"
	testtools "hortus.dev/test/tools"
)

// outside is what sandboxes connect to: a server with the name example.com, over TLS with
// HTTP/1.1 and HTTP/2, on this machine.
type outside struct {
	server *httptest.Server
	port   string
	rule   api.EgressRule
}

// LookupNetIP implements dial.Resolver.
func (outside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if strings.TrimSuffix(host, ".") != "example.com" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// newOutside starts the server. It also serves a git repository, at /git/project.
func newOutside(t *testing.T) *outside {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "project")
	git("-C", "project", "commit", "-q", "--allow-empty", "-m", "first")
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("hello over " + r.Proto + "\n"))
	})
	mux.Handle("/git/", &cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	return outsideOf(t, mux)
}

// outsideOf starts a server with a handler.
func outsideOf(t *testing.T, h http.Handler) *outside {
	o := &outside{server: httptest.NewUnstartedServer(h)}
	o.server.EnableHTTP2 = true
	o.server.StartTLS()
	t.Cleanup(o.server.Close)
	addr := netip.MustParseAddrPort(o.server.Listener.Addr().String())
	o.port = strconv.Itoa(int(addr.Port()))
	o.rule = api.EgressRule{Action: api.EgressAllow, Host: "example.com", Ports: o.port, Private: true}
	return o
}

// open opens a daemon that resolves and trusts the server, and returns a client of it.
func (o *outside) open(t *testing.T) *client.Client {
	t.Helper()
	w := o.town(t, network.Config{})
	c := o.client(t, w, w.operator.Secret)
	isolated(t, c)
	return c
}

// town opens a daemon that resolves and trusts the server.
func (o *outside) town(t *testing.T, cfg network.Config) *town {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.server.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Resolver, cfg.CAFile = o, roots
	return newTownOf(t, Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Egress: cfg})
}

// client returns a client of a daemon with an API key.
func (o *outside) client(t *testing.T, w *town, secret string) *client.Client {
	t.Helper()
	c, err := client.Remote(w.url, secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// box creates a sandbox with a policy.
func (o *outside) box(t *testing.T, c *client.Client, p *api.EgressPolicy) *client.Sandbox {
	t.Helper()
	s, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "container", Egress: p, Limits: api.Limits{MemoryBytes: 2 << 30}})
	if api.KindOf(err) == api.KindUnsupported {
		t.Skipf("this host cannot capture connections: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = s.Kill(context.Background())
		s.Close()
	})
	return s
}

// sh runs a script in a sandbox.
func sh(t *testing.T, s *client.Sandbox, script string) (string, error) {
	t.Helper()
	out, err := s.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	return string(out), err
}

// TestEgressPrograms connects with real programs through terminated TLS, over HTTP/1.1 and
// HTTP/2. None of them is configured for a proxy or a certificate authority.
func TestEgressPrograms(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	c := o.open(t)
	s := o.box(t, c, &api.EgressPolicy{Rules: []api.EgressRule{o.rule}})
	program, err := os.Open(testtools.Program(t, "./internal/daemon/testdata/fetch"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	upload := s.Command(t.Context(), "sh", "-c", "cat > /tmp/fetch && chmod +x /tmp/fetch")
	upload.Stdin = program
	if err := upload.Run(); err != nil {
		t.Fatal(err)
	}
	url := "https://example.com:" + o.port + "/"
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
	} {
		t.Run(p.name, func(t *testing.T) {
			if out, err := sh(t, s, "command -v "+p.needs); err != nil {
				t.Skipf("the sandbox has no %s %s", p.needs, out)
			}
			out, err := sh(t, s, p.script)
			if err != nil || !strings.Contains(out, p.want) {
				t.Errorf("%v, %q; want %q", err, out, p.want)
			}
			// The control: another name is refused, for this program too.
			if out, err := sh(t, s, strings.ReplaceAll(p.script, "example.com", "example.net")); err == nil && strings.Contains(out, p.want) {
				t.Errorf("example.net answers: %q", out)
			}
		})
	}
}

// TestEgressChanges changes a policy while the sandbox runs, and reads the decisions.
func TestEgressChanges(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	c := o.open(t)
	s := o.box(t, c, nil)
	fetch := "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://example.com:" + o.port + "/\").read().decode())'"
	if out, err := sh(t, s, fetch); err == nil {
		t.Errorf("without a policy: %q", out)
	}
	row, err := s.AddEgressRules(t.Context(), o.rule)
	if err != nil || row.Egress != api.EgressRules {
		t.Fatalf("%+v, %v", row, err)
	}
	if out, err := sh(t, s, fetch); err != nil || !strings.Contains(out, "hello") {
		t.Errorf("after it was allowed: %v, %q", err, out)
	}
	if _, err := s.SetEgress(t.Context(), api.EgressPolicy{}); err != nil {
		t.Fatal(err)
	}
	if out, err := sh(t, s, fetch); err == nil {
		t.Errorf("after it was denied: %q", out)
	}
	var denied, allowed bool
	for d, err := range c.Egress.All(t.Context(), api.EgressFilter{Sandbox: s.ID()}) {
		if err != nil {
			t.Fatal(err)
		}
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
	o := newOutside(t)
	c := o.open(t)
	s := o.box(t, c, &api.EgressPolicy{Ask: true})
	fetch := "python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", 3128)); s.sendall(b\"CONNECT example.org:81 HTTP/1.1\\r\\nHost: example.org:81\\r\\n\\r\\n\"); print(s.recv(100))'"
	done := make(chan string, 1)
	go func() {
		out, _ := sh(t, s, fetch)
		done <- out
	}()
	var asks []api.EgressAsk
	eventually(t, "a person is asked", func() bool {
		asks, _ = c.Egress.Asks(t.Context())
		return len(asks) == 1
	})
	if d := asks[0].Decision; d.Host != "example.org" || d.Port != 81 || d.Sandbox != s.ID() {
		t.Errorf("the question is about %+v", d)
	}
	if err := c.Egress.Answer(t.Context(), asks[0].ID, api.AnswerEgressAsk{Action: api.EgressDeny, Remember: true}); err != nil {
		t.Fatal(err)
	}
	if out := <-done; !strings.Contains(out, "403") {
		t.Errorf("after the denial the program got %q", out)
	}
	row, err := s.Info(t.Context())
	if err != nil || row.EgressPolicy == nil || len(row.EgressPolicy.Rules) != 1 || row.EgressPolicy.Rules[0].Host != "example.org" {
		t.Errorf("the remembered rule: %+v, %v", row.EgressPolicy, err)
	}
}
