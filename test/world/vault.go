package world

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/tier"
)

// Vault is a daemon that keeps secrets, with sandboxes of one isolation. What its servers receive is
// recorded.
type Vault struct {
	*World
	T *testing.T
	// Client is the operator's, over TCP with the key Operator. [Vault.OnSocket] changes it.
	Client    *client.Client
	Operator  api.CreatedKey
	Isolation string
	Out       *Outside
	// Log is the file of the daemon's log.
	Log string
	// Value has the values of secrets, by name.
	Value map[string]string

	mu   sync.Mutex
	seen strings.Builder // what servers received, and names that were looked up
}

// The places of secrets in requests.
var (
	InHeader = secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}
	InQuery  = secrets.Place{Kind: secrets.InQuery, Name: "key"}
	InBasic  = secrets.Place{Kind: secrets.InBasic}
)

// NewVault starts the servers and the daemon, in an environment that may be nil.
func NewVault(t *testing.T, isolation string, env func(name string) string) *Vault {
	t.Helper()
	v := &Vault{T: t, Isolation: isolation, Out: NewOutside(t), Value: map[string]string{}, Log: filepath.Join(t.TempDir(), "log")}
	v.Out.Looked = func(name string) { v.Saw("name " + name + "\n") }
	v.Out.HandleFunc("/", v.echo)
	v.Out.HandleFunc("/socket", v.socket)
	log, err := os.Create(v.Log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	v.World = Open(t, Config{
		GVisor: isolation == "gvisor", Outside: v.Out,
		Config: daemon.Config{Getenv: env, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
	})
	v.Isolates(t, isolation)
	v.Operator = v.Key("default", api.RoleAdmin)
	v.Client = v.As(v.Operator)
	return v
}

// Both runs a test with both isolations that capture connections; in T1 with the faster one.
func Both(t *testing.T, test func(v *Vault)) {
	on(t, tier.First(1, isolations), test)
}

// Each runs a test with both isolations, also in T1.
func Each(t *testing.T, test func(v *Vault)) { on(t, isolations, test) }

var isolations = []string{"container", "gvisor"}

func on(t *testing.T, isolations []string, test func(v *Vault)) {
	t.Parallel()
	for _, isolation := range isolations {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			test(NewVault(t, isolation, nil))
		})
	}
}

// OnSocket makes the vault a client of the daemon's own socket, which may name directories.
func (v *Vault) OnSocket() { v.Client = v.World.Client }

// Saw records what a server received.
func (v *Vault) Saw(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.WriteString(text)
}

// Take returns what the servers received since the last call.
func (v *Vault) Take() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.seen.Reset()
	return v.seen.String()
}

// echo records a request and answers with what it was authorized with.
func (v *Vault) echo(w http.ResponseWriter, r *http.Request) {
	dump, _ := httputil.DumpRequest(r, true) // what came of it
	_, password, _ := r.BasicAuth()
	v.Saw(string(dump) + "\npassword " + password + "\n")
	fmt.Fprintf(w, "hello %s %s %s\n", r.Header.Get("Authorization"), password, r.URL.Query().Get("key"))
}

// socket accepts a WebSocket and records what it receives.
func (v *Vault) socket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	if text := frame(rw.Reader); text != "" {
		v.Saw("frame " + text + "\n")
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

// At is a binding to a path of a host.
func (v *Vault) At(host, path string, place secrets.Place) secrets.Binding {
	return secrets.Binding{Host: host, Port: v.Out.Number(), Paths: []string{path}, In: place}
}

// Set stores a secret; its value is random, and stays the same.
func (v *Vault) Set(name string, b secrets.Binding) (value string) {
	v.T.Helper()
	if v.Value[name] == "" {
		v.Value[name] = "canary+of/" + name + "=" + rand.Text()
	}
	if _, err := v.Client.Secrets.Set(v.T.Context(), name, secrets.Set{Value: v.Value[name], Bindings: []secrets.Binding{b}}); err != nil {
		v.T.Fatal(err)
	}
	return v.Value[name]
}

// Policy allows both servers by all names, because they have private addresses.
func (v *Vault) Policy(hosts ...string) *api.EgressPolicy {
	p := &api.EgressPolicy{}
	for _, h := range append([]string{"example.com", "other.example.com"}, hosts...) {
		r := Rule(h, v.Out.Port+","+v.Out.Clear)
		r.Private = !strings.HasPrefix(h, "*")
		p.Rules = append(p.Rules, r)
	}
	return p
}

// Sandbox creates a sandbox that may use secrets.
func (v *Vault) Sandbox(req api.CreateSandbox, secrets ...string) *client.Sandbox {
	v.T.Helper()
	req.Isolation, req.Limits = v.Isolation, api.Limits{MemoryBytes: 2 << 30}
	if req.Egress == nil {
		req.Egress = v.Policy()
	}
	for _, name := range secrets {
		req.Secrets = append(req.Secrets, api.SecretGrant{Name: name})
	}
	return Sandbox(v.T, v.Client, req)
}

// Fork forks a sandbox once, with secrets.
func (v *Vault) Fork(s *client.Sandbox, secrets ...string) *client.Sandbox {
	v.T.Helper()
	return Fork(v.T, v.Client, s, api.ForkSandbox{Secrets: secrets})
}

// Sh runs a script in a sandbox.
func (v *Vault) Sh(s *client.Sandbox, script string) (string, error) {
	v.T.Helper()
	return Sh(v.T, s, script)
}

// Refusals returns the refused uses of a sandbox, the newest first.
func (v *Vault) Refusals(id api.SandboxID) (out []secrets.Use) {
	v.T.Helper()
	for u, err := range v.Client.Secrets.Uses(v.T.Context(), secrets.UseFilter{Refused: true}) {
		if err != nil {
			v.T.Fatal(err)
		}
		if u.Sandbox == id {
			out = append(out, u)
		}
	}
	return out
}

// Works requires that a script uses a secret: a server gets its value, and the sandbox gets the
// placeholder back.
func (v *Vault) Works(what string, s *client.Sandbox, script, name string) {
	v.T.Helper()
	v.Take()
	out, err := v.Sh(s, script)
	if seen := v.Take(); err != nil || !strings.Contains(seen, v.Value[name]) && !strings.Contains(seen, url.QueryEscape(v.Value[name])) || strings.Contains(seen, "hortus-secret-") {
		v.T.Errorf("%s: %v, %s; the server got %s", what, err, out, seen)
	}
	if !strings.Contains(out, "hello") || !strings.Contains(out, "hortus-secret-") || strings.Contains(out, v.Value[name]) {
		v.T.Errorf("%s: the sandbox got %s", what, out)
	}
}

// Refused requires that a script reaches no server with a value or a placeholder, and an alarm. It returns what the
// script printed.
func (v *Vault) Refused(what string, s *client.Sandbox, script string) string {
	v.T.Helper()
	v.Take()
	before := len(v.Refusals(s.ID()))
	out, _ := v.Sh(s, script) // it may fail
	seen := v.Take()
	bad := strings.Contains(seen, "hortus-secret-")
	for _, value := range v.Value {
		for _, form := range []string{value, url.QueryEscape(value)} {
			bad = bad || strings.Contains(seen, form) || strings.Contains(out, form)
		}
	}
	if bad {
		v.T.Errorf("%s: %s; the server got %s", what, out, seen)
	}
	if after := v.Refusals(s.ID()); len(after) <= before {
		v.T.Errorf("%s: no alarm; %s", what, out)
	}
	return out
}
