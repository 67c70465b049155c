package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/dialout"
)

// hostile: what reaches the daemon's listener for guests and is not the guest gets nothing.
func hostile(t *testing.T, double *double, b *bench, d *daemon) {
	id := api.NewSandboxID()
	name := "hortus-" + string(id)
	box, err := d.service.Create(t.Context(), remote.Request{
		Labels: map[string]string{remote.LabelSandbox: string(id), remote.LabelOwner: "hostile"}, Internet: true, Lease: remote.Lease, Limits: spec().Limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.service.Kill(context.Background(), box)
	if err := d.service.Boot(t.Context(), box, remote.Guest{Sandbox: id, Config: []byte(`{"token":"c29tZSB0b2tlbiBvZiAzMiBieXRlcw=="}`)}); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ask := func(method, path, guest, secret string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, b.cfg.GuestURL+path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(dialout.HeaderName, guest)
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for what, c := range map[string]struct {
		method, path, guest, secret string
		want                        int
	}{
		"no ticket":          {"POST", dialout.PathStart, name, "", 403},
		"a used ticket":      {"POST", dialout.PathStart, name, double.ticketOf(t, name), 403},
		"a guessed ticket":   {"POST", dialout.PathStart, name, strings.Repeat("A", 26), 403},
		"a start of nobody":  {"POST", dialout.PathStart, "hortus-other", "x", 403},
		"no token":           {"GET", dialout.PathStream, name, "", 403},
		"a guessed token":    {"GET", dialout.PathStream, name, strings.Repeat("A", 26), 403},
		"a stream of nobody": {"GET", dialout.PathStream, "hortus-other", "x", 503},
		"another path":       {"GET", "/", name, "x", 404},
		"the control":        {"GET", dialout.PathStream, name, box.Access["token"], 101},
	} {
		if got := ask(c.method, c.path, c.guest, c.secret); got != c.want {
			t.Errorf("%s: status %d; want %d", what, got, c.want)
		}
	}
	// A guest connects to no other host than its own, whatever the address leads to.
	dial := birth.Dial{Address: b.cfg.Listen, Pin: strings.Repeat("00", 32), Name: "hortus-other", Ticket: "x", Patience: 1}
	g, err := dialout.New(dial)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a host with another key: %v", err)
	}
	// Connections that say nothing do not keep a guest out.
	var silent []net.Conn
	for range 600 {
		c, err := net.Dial("tcp", b.cfg.Listen)
		if err != nil {
			break
		}
		silent = append(silent, c)
	}
	for _, c := range silent {
		c.Close()
	}
	if m, err := d.Start(t.Context(), spec()); err != nil {
		t.Errorf("after %d silent connections: %v", len(silent), err)
	} else if _, err := m.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// ticketOf is the ticket in the description of a pod, as everybody with access to the API can read it.
func (d *double) ticketOf(t *testing.T, name string) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var dial birth.Dial
	if err := json.Unmarshal([]byte(at(d.pods[name].object, "spec", "containers", 0, "env", 0, "value").(string)), &dial); err != nil {
		t.Fatal(err)
	}
	return dial.Ticket
}
