package daemon

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/network"
	testtools "hortus.dev/test/tools"
)

// vault is a daemon that keeps secrets, and the servers that its sandboxes reach: example.com and
// *.example.com, over TLS and in clear.
type vault struct {
	t           *testing.T
	w           *town
	c           *client.Client
	isolation   string
	port, clear string
	routes      *http.ServeMux // of both servers
	log         string         // of the daemon

	mu    sync.Mutex
	seen  strings.Builder // what servers received, and names that were looked up
	value map[string]string
}

// LookupNetIP implements dial.Resolver.
func (v *vault) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	v.saw("name " + strings.ToLower(host) + "\n")
	if host = strings.TrimSuffix(host, "."); host != "example.com" && !strings.HasSuffix(host, ".example.com") {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// newVault starts the servers and the daemon.
func newVault(t *testing.T, isolation string) *vault { return newVaultIn(t, isolation, nil) }

// newVaultIn is newVault in an environment, which may be nil.
func newVaultIn(t *testing.T, isolation string, env func(name string) string) *vault {
	t.Helper()
	v := &vault{t: t, isolation: isolation, routes: http.NewServeMux(), value: map[string]string{}}
	v.routes.HandleFunc("/", v.echo)
	v.routes.HandleFunc("/socket", v.socket)
	secure, clear := httptest.NewUnstartedServer(v.routes), httptest.NewServer(v.routes)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(clear.Close)
	_, v.port, _ = net.SplitHostPort(secure.Listener.Addr().String())
	_, v.clear, _ = net.SplitHostPort(clear.Listener.Addr().String())
	roots := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	v.log = filepath.Join(t.TempDir(), "log")
	log, err := os.Create(v.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Logger: logger, Egress: network.Config{Resolver: v, CAFile: roots}, Getenv: env}
	if isolation == "gvisor" {
		cfg.Runsc = filepath.Join(testtools.Dir(t), testtools.Runsc)
	}
	v.w = newTownOf(t, cfg)
	c, err := client.Remote(v.w.url, v.w.operator.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	isolated(t, c)
	v.c = c
	return v
}

func (v *vault) saw(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.WriteString(text)
}

// take returns what the servers received since the last call.
func (v *vault) take() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.seen.Reset()
	return v.seen.String()
}

// echo records a request and answers with what it was authorized with.
func (v *vault) echo(w http.ResponseWriter, r *http.Request) {
	dump, _ := httputil.DumpRequest(r, true) // what came of it
	_, password, _ := r.BasicAuth()
	v.saw(string(dump) + "\npassword " + password + "\n")
	fmt.Fprintf(w, "hello %s %s %s\n", r.Header.Get("Authorization"), password, r.URL.Query().Get("key"))
}

// socket accepts a WebSocket and records what it receives.
func (v *vault) socket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	if text := frame(rw.Reader); text != "" {
		v.saw("frame " + text + "\n")
		conn.Write([]byte("\x81\x02ok"))
	}
}

// frame reads a short masked frame of a WebSocket; "" if there is none.
func frame(r *bufio.Reader) string {
	head := make([]byte, 6)
	for i := range head {
		b, err := r.ReadByte()
		if err != nil {
			return ""
		}
		head[i] = b
	}
	out := make([]byte, head[1]&0x7f)
	for i := range out {
		b, err := r.ReadByte()
		if err != nil {
			return ""
		}
		out[i] = b ^ head[2+i%4]
	}
	return string(out)
}

// at is a binding to a path of a host.
func (v *vault) at(host, path string, place secrets.Place) secrets.Binding {
	port, _ := strconv.Atoi(v.port)
	return secrets.Binding{Host: host, Port: port, Paths: []string{path}, In: place}
}

var (
	inHeader = secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}
	inQuery  = secrets.Place{Kind: secrets.InQuery, Name: "key"}
	inBasic  = secrets.Place{Kind: secrets.InBasic}
)

// set stores a secret; its value is random, and stays the same.
func (v *vault) set(name string, b secrets.Binding) (value string) {
	v.t.Helper()
	if v.value[name] == "" {
		v.value[name] = "canary+of/" + name + "=" + rand.Text()
	}
	if _, err := v.c.Secrets.Set(v.t.Context(), name, secrets.Set{Value: v.value[name], Bindings: []secrets.Binding{b}}); err != nil {
		v.t.Fatal(err)
	}
	return v.value[name]
}

// policy allows both servers by all names, because they have private addresses.
func (v *vault) policy(hosts ...string) *api.EgressPolicy {
	p := &api.EgressPolicy{}
	for _, h := range append([]string{"example.com", "other.example.com"}, hosts...) {
		p.Rules = append(p.Rules, api.EgressRule{Action: api.EgressAllow, Host: h, Ports: v.port + "," + v.clear, Private: !strings.HasPrefix(h, "*")})
	}
	return p
}

// box creates a sandbox that may use secrets.
func (v *vault) box(req api.CreateSandbox, secrets ...string) *client.Sandbox {
	v.t.Helper()
	req.Isolation, req.Limits = v.isolation, api.Limits{MemoryBytes: 2 << 30}
	if req.Egress == nil {
		req.Egress = v.policy()
	}
	for _, name := range secrets {
		req.Secrets = append(req.Secrets, api.SecretGrant{Name: name})
	}
	s, err := v.c.Sandboxes.Create(v.t.Context(), req)
	if kind := api.KindOf(err); kind == api.KindUnsupported || kind == api.KindUnisolated {
		v.t.Skipf("this host cannot capture connections with %s: %v", v.isolation, err)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() {
		_, _ = s.Kill(context.Background())
		s.Close()
	})
	return s
}

// needs skips a test if a sandbox does not have a program.
func needs(t *testing.T, s *client.Sandbox, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if out, err := sh(t, s, "command -v "+p); err != nil {
			t.Skipf("the sandbox has no %s %s", p, out)
		}
	}
}

// alarms returns the reasons of the refusals of a sandbox, the newest first.
func (v *vault) alarms(id api.SandboxID) (out []string) {
	v.t.Helper()
	for u, err := range v.c.Secrets.Uses(v.t.Context(), secrets.UseFilter{Refused: true}) {
		if err != nil {
			v.t.Fatal(err)
		}
		if u.Sandbox == id {
			out = append(out, u.Refused)
		}
	}
	return out
}

// works requires that a script uses a secret: a server gets its value, and the sandbox gets the
// placeholder back.
func (v *vault) works(what string, s *client.Sandbox, script, name string) {
	v.t.Helper()
	v.take()
	out, err := sh(v.t, s, script)
	if seen := v.take(); err != nil || !strings.Contains(seen, v.value[name]) && !strings.Contains(seen, url.QueryEscape(v.value[name])) || strings.Contains(seen, "hortus-secret-") {
		v.t.Errorf("%s: %v, %s; the server got %s", what, err, out, seen)
	}
	if !strings.Contains(out, "hello") || !strings.Contains(out, "hortus-secret-") || strings.Contains(out, v.value[name]) {
		v.t.Errorf("%s: the sandbox got %s", what, out)
	}
}

// refused requires that a script reaches no server with a value or a placeholder, and an alarm.
func (v *vault) refused(what string, s *client.Sandbox, script string) {
	v.t.Helper()
	v.take()
	before := len(v.alarms(s.ID()))
	out, _ := sh(v.t, s, script) // it may fail
	seen := v.take()
	for _, value := range append(values(v.value), "hortus-secret-") {
		if strings.Contains(seen, value) || strings.Contains(out, value) && value != "hortus-secret-" {
			v.t.Errorf("%s: %s; the server got %s", what, out, seen)
		}
	}
	if after := v.alarms(s.ID()); len(after) <= before {
		v.t.Errorf("%s: no alarm; %s", what, out)
	}
}

func values(m map[string]string) (out []string) {
	for _, v := range m {
		out = append(out, v, url.QueryEscape(v))
	}
	return out
}

// both runs a test with both isolations that capture connections.
func both(t *testing.T, test func(v *vault)) {
	t.Parallel()
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			test(newVault(t, isolation))
		})
	}
}

// TestSecretInPrograms uses secrets with real programs, and takes them away while the sandbox
// runs. test/story has the same after the daemon was killed.
func TestSecretInPrograms(t *testing.T) {
	both(t, func(v *vault) {
		v.set("head", v.at("example.com", "/header", inHeader))
		v.set("param", v.at("example.com", "/query", inQuery))
		v.set("pass", v.at("example.com", "/basic", inBasic))
		s := v.box(api.CreateSandbox{}, "head", "param", "pass")
		needs(v.t, s, "curl", "python3")
		at := "https://example.com:" + v.port
		header := `curl -sS -H "Authorization: Bearer $HEAD" ` + at + "/header"
		for _, c := range []struct{ what, script, name string }{
			{"curl, header", header, "head"},
			{"curl, header over HTTP/1.1", header + " --http1.1", "head"},
			{"curl, query", `curl -sS "` + at + `/query?a=b&key=$PARAM"`, "param"},
			{"curl, basic", `curl -sS -u "me:$PASS" ` + at + `/basic`, "pass"},
			{"python, header", `python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request("` + at + `/header", headers={"Authorization": "Bearer " + os.environ["HEAD"]})).read().decode())'`, "head"},
		} {
			v.works(c.what, s, c.script, c.name)
		}
		if got := v.alarms(s.ID()); got != nil {
			v.t.Errorf("alarms: %q", got)
		}
		v.refused("the placeholder of another place", s, `curl -sS "`+at+`/query?a=b&key=$HEAD"`)

		v.set("head", v.at("other.example.com", "/header", inHeader))
		v.refused("after its binding was changed", s, header)
		v.works("at its new binding", s, strings.Replace(header, "example.com", "other.example.com", 1), "head")
		v.set("head", v.at("example.com", "/header", inHeader))
		v.works("with its first binding again", s, header, "head")
		if _, err := v.c.Secrets.Remove(v.t.Context(), "head"); err != nil {
			v.t.Fatal(err)
		}
		v.refused("after it was removed", s, header)
		v.works("another secret, after one was removed", s, `curl -sS -u "me:$PASS" `+at+`/basic`, "pass")
		v.set("head", v.at("example.com", "/header", inHeader))
		v.works("after it was set again", s, header, "head")

		v.forks(s, header, `curl -sS -u "me:$PASS" `+at+`/basic`)
		if v.isolation == "gvisor" {
			if _, err := s.PauseToDisk(v.t.Context()); err != nil {
				v.t.Fatal(err)
			}
			if _, err := s.Resume(v.t.Context()); err != nil {
				v.t.Fatal(err)
			}
			v.works("after a pause to disk", s, header, "head")
			v.refused("after a pause to disk, in another place", s, `curl -sS "`+at+`/query?key=$HEAD"`)
		}
	})
}

// forks forks a sandbox with and without the secret head; no child has the secret pass.
func (v *vault) forks(s *client.Sandbox, head, pass string) {
	v.t.Helper()
	fork := func(secrets ...string) *client.Sandbox {
		v.t.Helper()
		out, err := s.Fork(v.t.Context(), api.ForkSandbox{Secrets: secrets})
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
	if _, err := s.Fork(v.t.Context(), api.ForkSandbox{Secrets: []string{"unknown"}}); api.KindOf(err) != api.KindInvalid {
		v.t.Errorf("a fork with a secret that the parent has not: %v", err)
	}
	without, with := fork(), fork("head")
	v.refused("in a fork without it", without, head)
	v.works("in a fork with it", with, head, "head")
	v.refused("another secret in a fork", with, pass)
	v.works("in the parent of forks", s, head, "head")
}
