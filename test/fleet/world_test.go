package fleet

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/server/front"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/world"
)

// TestMain lets the test binary be everything that hortus is.
func TestMain(m *testing.M) {
	if ahead := os.Getenv(skewVariable); ahead != "" && filepath.Base(os.Args[0]) == "hortus" {
		d, err := time.ParseDuration(ahead)
		if err == nil {
			err = skew(d)
		}
		if err != nil {
			panic(err)
		}
	}
	world.Main(m)
}

// nodes are daemons that share a database, with the names a, b and so on.
type nodes []*world.World

// base is what nodes share.
type base struct {
	store daemon.Store
	key   []byte
	// archive is where nodes find the states of each other's sandboxes; with one they have gVisor.
	archive string
	// sandboxes is how many a node holds; 0 for as many as fit.
	sandboxes int
	// patience is how long a sandbox waits; 0 for as long as usual.
	patience time.Duration
	// url is where clients reach all nodes, through a balancer; empty for none.
	url string
}

func newBase(t *testing.T) base {
	t.Helper()
	server := postgrestest.Start(t)
	b := base{store: daemon.Store{URL: server.URL(postgrestest.User, server.Database(t))}, key: make([]byte, 32)}
	rand.Read(b.key)
	return b
}

// dir makes the data directory of a node.
func (b base) dir(t *testing.T) string {
	t.Helper()
	dir := world.NewDir(t)
	world.OK(t, os.Mkdir(dir, 0o700))
	world.OK(t, os.WriteFile(filepath.Join(dir, "hortus.db-key"), b.key, 0o600))
	return dir
}

// open starts a fleet.
func open(t *testing.T, n int) nodes {
	t.Helper()
	return newBase(t).open(t, n)
}

func (b base) open(t *testing.T, n int) nodes {
	t.Helper()
	var all nodes
	for range n {
		all = b.add(t, all)
	}
	f := world.Must(all[0].Client.InitFleet(t.Context()))(t)
	if !f.Initialized || len(f.Nodes) != n {
		t.Fatalf("%+v", f)
	}
	return all
}

// add starts one more node.
func (b base) add(t *testing.T, all nodes) nodes {
	t.Helper()
	return append(all, world.Open(t, world.Config{GVisor: b.archive != "", Config: daemon.Config{
		DataDir: b.dir(t), Store: b.store, Fleet: daemon.FleetConfig{Name: string(rune('a' + len(all))), Listen: "127.0.0.1:0"}, Usual: api.CreateSandbox{Isolation: "container"},
		LayerArchive: b.archive, Room: admission.Config{MaxSandboxes: b.sandboxes, Patience: b.patience}, Front: front.Config{PublicURL: b.url},
	}}))
}

// of returns the node that has a sandbox, and one that does not.
func (all nodes) of(t *testing.T, id api.SandboxID) (has, other *world.World) {
	t.Helper()
	row := world.Must(all[0].DB.Sandbox(t.Context(), id))(t)
	n := world.Must(all[0].DB.NodeOfOwner(t.Context(), row.Owner))(t)
	for i, w := range all {
		if n.Name == string(rune('a'+i)) {
			return w, all[(i+1)%len(all)]
		}
	}
	t.Fatalf("sandbox %s is on node %q", id, n.Name)
	return nil, nil
}

// call sends a request to a daemon's TCP listener. It returns the status and the body.
func call(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	world.OK(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	world.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	world.OK(t, err)
	return resp.StatusCode, string(text)
}

// field returns the text of a field of a JSON object.
func field(t *testing.T, body, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, fmt.Sprintf("%q:\"", name))
	if !ok {
		t.Fatalf("no %s in %s", name, body)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
