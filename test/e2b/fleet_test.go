package e2b

import (
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/test/network"
	"hortus.dev/test/patience"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
)

// TestFleet runs every feature with the newest SDK against each of three nodes, which share a database, and against a balancer that gives each
// request to the next one. The sandboxes that it makes are on any of them.
func TestFleet(t *testing.T) {
	tier.Soak(t)
	modules := installed(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	servers, b := serveFleet(t, "container"), network.NewBalancer(t)
	for _, s := range servers {
		b.Add(t, s.url)
	}
	for i, s := range append(servers, server{url: b.URL, key: servers[0].key}) {
		results := map[string]int{}
		for _, l := range features(t, node, modules, sdks[0].pkg, "container", s, *only) {
			if results[l.Result]++; l.Result == "failed" {
				t.Errorf("node %d, %s: %s\n%s", i+1, l.File, l.Feature, l.Detail)
			}
		}
		t.Logf("node %d: %v", i+1, results)
	}
}

// serveFleet starts three servers that share a database.
func serveFleet(t *testing.T, isolation string) []server {
	t.Helper()
	database := postgrestest.Start(t)
	settings := []string{
		"HORTUS_STORE_URL=" + database.URL(postgrestest.User, database.Database(t)),
		"HORTUS_STORE_KEY_FILE=" + filepath.Join(t.TempDir(), "key"), "HORTUS_FLEET_LISTEN=127.0.0.1:0",
	}
	first := serve(t, isolation, append(settings, "HORTUS_FLEET_NAME=n1")...)
	all := []server{first}
	var hortus func(...string) ([]byte, error)
	for _, name := range []string{"n2", "n3"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		var s server
		s, _, hortus = start(t, isolation, address, append(settings, "HORTUS_FLEET_NAME="+name)...)
		s.url, s.key = "http://"+address, first.key
		all = append(all, s)
		for deadline := time.Now().Add(patience.Of(time.Minute)); ; time.Sleep(50 * time.Millisecond) {
			resp, err := http.Get(s.url + "/readyz")
			if err == nil {
				resp.Body.Close()
			}
			if err == nil && resp.StatusCode == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("node %s does not serve: %v", name, err)
			}
		}
	}
	out, err := hortus("fleet", "init", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var fleet struct{ Nodes []json.RawMessage }
	if err := json.Unmarshal(out, &fleet); err != nil || len(fleet.Nodes) != len(all) {
		t.Fatalf("%s, %v", out, err)
	}
	return all
}
