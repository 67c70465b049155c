package kubernetes

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
)

const goodConfig = `apiVersion: v1
kind: Config
current-context: main
contexts:
- {name: other, context: {cluster: other, user: other}}
- {name: main, context: {cluster: main, user: me, namespace: ignored}}
clusters: [{name: main, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: me, user: {token: secret}}]
`

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from, to string // of a change
		token    string
		want     string // of an error
	}{
		"a token":         {"", "", "secret", ""},
		"a file":          {"token: secret", "tokenFile: token", "from a file", ""},
		"no context":      {"current-context: main", "current-context: none", "", `no context "none"`},
		"no cluster":      {"name: main, cluster: {", "name: x, cluster: {", "", `no cluster "main"`},
		"no secret":       {"token: secret", "", "", "neither a token nor a certificate"},
		"another user":    {"name: me, user: {", "name: x, user: {", "", "neither a token nor a certificate"},
		"a program":       {"token: secret", "exec: {command: login}", "", "exec or auth-provider"},
		"insecure":        {"6443\"", "6443\", insecure-skip-tls-verify: true", "", "not supported"},
		"a proxy":         {"6443\"", "6443\", proxy-url: http://p", "", "not supported"},
		"not encrypted":   {"https:", "http:", "", "not https"},
		"no address":      {"https://10.0.0.1:6443", "10.0.0.1", "", "is not an address"},
		"a bad authority": {"6443\"", "6443\", certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte("no")), "", "no PEM"},
		"no base64":       {"6443\"", "6443\", certificate-authority-data: '???'", "", "illegal base64"},
		"a missing file":  {"6443\"", "6443\", certificate-authority: none", "", "no such file"},
		"a bad key":       {"token: secret", "client-certificate-data: eA==", "", "tls:"},
		"not YAML":        {"kind:", "kind: [", "", "yaml:"},
	} {
		s, err := parseKubeconfig([]byte(strings.Replace(goodConfig, c.from, c.to, 1)), dir)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v; want %q", name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if token, err := s.token(t.Context()); err != nil || token != c.token || s.address() != "10.0.0.1:6443" {
			t.Errorf("%s: %q at %s, %v", name, token, s.address(), err)
		}
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseKubeconfig(text, t.TempDir())
		if err == nil && (s.url == nil || s.url.Scheme != "https" || s.token == nil && len(s.tls.Certificates) == 0) {
			t.Errorf("accepted %q: %+v", text, s)
		}
	})
}

// Without a cluster nothing listens, and everything says so.
func TestNoCluster(t *testing.T) {
	s, err := New(Config{Dir: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for what, err := range map[string]error{"check": s.Check(t.Context()), "kill": s.Kill(t.Context(), remote.Box{ID: "x"})} {
		if err == nil || !strings.Contains(err.Error(), "no cluster is configured") {
			t.Errorf("%s: %v", what, err)
		}
	}
	missing := api.Ability{Reason: "no cluster is configured", Fix: "set kubernetes.namespace"}
	b, err := remote.New(remote.Config{Service: s, Dir: t.TempDir(), Missing: missing})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := b.Probe(t.Context()).Has(api.CapStart); ok || got.Reason != missing.Reason || got.Fix != missing.Fix {
		t.Errorf("the report: %+v", got)
	}
}

// good is a configuration that is accepted.
func good(t *testing.T) Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(goodConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{Kubeconfig: file, Namespace: "sandboxes", Image: "a", GuestImage: "b", GuestURL: "https://127.0.0.1:1", Listen: "127.0.0.1:0", Dir: t.TempDir()}
}

// A guest that connects to another address than the present one of the daemon says so when it is missed.
func TestMovedDaemon(t *testing.T) {
	s, err := New(good(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for address, want := range map[string]string{
		"127.0.0.1:1": "the guest is not connected",
		"":            "the guest is not connected", // of a record of an earlier version
		"127.0.0.9:1": "the guest is not connected: it connects to 127.0.0.9:1, and the address of kubernetes.guest-url is 127.0.0.1:1 now",
	} {
		if _, err := s.Endpoint(t.Context(), remote.Box{ID: "p" + address, Access: map[string]string{accessToken: "t", accessDials: address}}, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.guests.take(ctx, "p"+address); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %q", address, err, want)
		}
	}
}

// A daemon in a cluster whose pod has no Service for its guests does not start, and says why; elsewhere it starts, and its report says it.
func TestNoService(t *testing.T) {
	cfg := good(t)
	cfg.GuestURL = "https://hortus-2-guests.invalid:7443"
	for _, inside := range []bool{true, false} {
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "find the address of hortus-2-guests.invalid") {
			t.Errorf("checked: %v", err)
		}
		if inside {
			s.cfg.Kubeconfig = ""
		}
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := s.Await(t.Context())
			if !inside {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if took := time.Since(began); took > 2*nameTime || err == nil || !strings.Contains(err.Error(), "find the address of hortus-2-guests.invalid") || !strings.Contains(api.HintOf(err), "not with kubectl scale") {
				t.Errorf("%s: %v (%s)", took, err, api.HintOf(err))
			}
		})
	}
	cfg.GuestURL = "https://localhost:7443"
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.cfg.Kubeconfig = ""
	if err := s.Await(t.Context()); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := good(t)
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"the control":  {func(*Config) {}, ""},
		"namespace":    {func(c *Config) { c.Namespace = "a/../b" }, "kubernetes.namespace"},
		"image":        {func(c *Config) { c.Image = "" }, "kubernetes.image"},
		"guest image":  {func(c *Config) { c.GuestImage = "" }, "kubernetes.guest-image"},
		"plain http":   {func(c *Config) { c.GuestURL = "http://127.0.0.1:1" }, "kubernetes.guest-url"},
		"a path":       {func(c *Config) { c.GuestURL = "https://127.0.0.1:1/x" }, "kubernetes.guest-url"},
		"labels":       {func(c *Config) { c.DaemonLabels = []string{"x"} }, "kubernetes.daemon-labels"},
		"no config":    {func(c *Config) { c.Kubeconfig = "/none" }, "kubernetes.kubeconfig"},
		"bad listener": {func(c *Config) { c.Listen = "nowhere" }, "kubernetes.listen"},
	} {
		cfg := good
		c.change(&cfg)
		s, err := New(cfg)
		if err == nil {
			s.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}
