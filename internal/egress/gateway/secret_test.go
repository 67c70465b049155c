package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/broker"
)

// uses are records of secrets.
type uses struct {
	mu  sync.Mutex
	all []secrets.Use
}

func (u *uses) record(use secrets.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, use)
}

func (u *uses) take() []secrets.Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer func() { u.all = nil }()
	return u.all
}

// TestSecret has a sandbox use a secret, send its placeholder in other ways, and lose it.
func TestSecret(t *testing.T) {
	var seen uses
	r := newRig(t, func(c *Config) {
		c.Broker = broker.New(broker.Config{
			Value: func(_ context.Context, account, name string) (string, error) {
				return "value-of-" + account + "-" + name, nil
			},
			Record: seen.record,
		})
	})
	var mu sync.Mutex
	var got string
	port := r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = req.Header.Get("Authorization")
		fmt.Fprint(w, "you sent ", got)
	}))
	raw := r.tcp()
	free := api.EgressRule{Action: api.EgressAllow, Host: "*.free.example", Ports: fmt.Sprint(port)}
	s, l := r.serve(rules(allow("api.example.org", port, ""), allow("api.example.org", raw, api.EgressTCP), free))
	p := broker.NewPlaceholder()
	secret := secrets.Secret{Name: "token", Bindings: []secrets.Binding{{Host: "api.example.org", Port: port, In: secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}}}}
	send := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("https://api.example.org:%d/", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+p)
		resp, err := r.client(l).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	if status, text := send(); status != 403 || got != "" {
		t.Errorf("before it was granted: %d %q", status, text)
	}
	if err := s.SetGrants([]broker.Grant{{Placeholder: p, Secret: secret}}); err != nil {
		t.Fatal(err)
	}
	seen.take()
	if status, text := send(); status != 200 || got != "Bearer value-of-acc-token" || text != "you sent Bearer "+p {
		t.Errorf("%d %q, the server got %q", status, text, got)
	}
	if all := seen.take(); len(all) != 1 || all[0].Refused != "" || all[0].Secret != "token" || all[0].Sandbox != "sbx_1" || all[0].Task != "task_1" || all[0].Commands[0] != "npm install" {
		t.Errorf("%+v", all)
	}
	// Names.
	resolve := func(name string) string {
		return ask(t, l.open(), envd.EgressRequest{Op: envd.EgressResolve, Name: name}).Error
	}
	if resolve("a.free.example") != "" || resolve(strings.ToUpper(p)+".free.example") != envd.EgressErrDenied {
		t.Error("a name with a placeholder is looked up, or one without is not")
	}
	if _, a := l.connect("a.free.example", port); !a.OK {
		t.Error(a.Error)
	}
	if _, a := l.connect(p+".free.example", port); a.Error != envd.EgressErrDenied {
		t.Errorf("%+v", a)
	}
	if all := seen.take(); len(all) != 2 || all[0].Refused == "" || all[0].Port != 0 || all[1].Refused == "" || all[1].Port != port {
		t.Errorf("%+v", all)
	}
	r.records.op(t, opResolve, api.EgressDenied)
	var err error
	// Connections that are not HTTP: opened directly, and with CONNECT.
	harmless := strings.Repeat("h", len(p))
	for _, text := range []string{harmless, p} {
		direct, a := l.connect("api.example.org", raw)
		if !a.OK {
			t.Fatal(a.Error)
		}
		proxy := l.open()
		fmt.Fprintf(proxy, `{"op":%q}`+"\n"+"CONNECT api.example.org:%d HTTP/1.1\r\nHost: x\r\n\r\n", envd.EgressProxy, raw)
		tunnel := bufio.NewReader(proxy)
		for line := ""; line != "\r\n"; {
			if line, err = tunnel.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			io.Reader
			io.Writer
		}{"direct": {direct, direct}, "CONNECT": {tunnel, proxy}} {
			io.WriteString(c, text)
			b := make([]byte, len(text))
			if _, err := io.ReadFull(c, b); (err == nil) != (text == harmless) {
				t.Errorf("%s: %q came back, %v", name, b, err)
			}
		}
	}
	if all := seen.take(); len(all) != 2 || all[0].Refused == "" || all[0].Host != "api.example.org" || all[0].Port != raw {
		t.Errorf("%+v", all)
	}
	if err := s.SetGrants(nil); err != nil {
		t.Fatal(err)
	}
	if status, text := send(); status != 403 {
		t.Errorf("after it was revoked: %d %q", status, text)
	}
}

// TestNoBroker has a gateway without a broker.
func TestNoBroker(t *testing.T) {
	r := newRig(t)
	s, _ := r.serve(rules())
	if err := s.SetGrants(nil); err != nil {
		t.Error(err)
	}
	if err := s.SetGrants([]broker.Grant{{}}); api.KindOf(err) != api.KindUnsupported {
		t.Error(err)
	}
}
