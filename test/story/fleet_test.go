package story

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/test/archivetest"
	"hortus.dev/test/network"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
)

// notOnAFleet are stories that a fleet cannot tell, with the reason.
var notOnAFleet = map[string]string{
	"admin_daemon":      oneDaemon,
	"admin_doctor":      oneDaemon,
	"operator_resident": oneDaemon,
	"operator_serve":    oneDaemon,
	"user_first_run":    oneDaemon,
	"user_isolation":    oneDaemon,
	"user_shared":       "it has two daemons of its own, which share no database",
	"user_restart":      "the daemon that is killed must be that of the sandbox's node: test/fleet TestStorm kills nodes",
	"user_mcp":          "hortus mcp install names the data directory of the node that is asked",
	"user_images":       "an image is on the node that read it (docs/fleet.md, Doors)",
	"user_hook":         "without serve.public-url the address of a hook is that of one node",
	"user_policy":       "the daemon that is started again with other settings must be that of the next command",
	"user_wait":         "another node has room: test/fleet TestRoomElsewhere fills a fleet",
	"user_prebuild":     "its setup is smaller than a packed layer, so no archive has it for other nodes (docs/layers.md)",
}

const oneDaemon = "it is about one daemon and its data directory"

// TestFleetScripts runs the stories of TestScripts, unchanged, on fleets of three nodes, each in a network namespace, with Postgres and an S3 server.
// Each command of a story goes to another node than the last one, so to one that mostly does not have what the command is about.
func TestFleetScripts(t *testing.T) {
	tier.Soak(t)
	s := fleetServers{database: postgrestest.Start(t, "max_connections=500"), archive: archivetest.Gateway(t)}
	runScripts(t, true, func(t testing.TB, name string) *garden {
		if reason := notOnAFleet[name]; reason != "" {
			t.Skip(reason)
		}
		return newFleet(t, &s)
	})
}

// fleetServers are the servers of all fleets of a test.
type fleetServers struct {
	database *postgrestest.Server
	archive  string
	fleets   atomic.Int64
}

// fleet are the nodes of a garden: n1, n2 and n3.
type fleet struct {
	t      testing.TB
	garden *garden
	base   string
	net    *network.Network
	nodes  []*garden
}

// size is the number of nodes.
const size = 3

// newFleet makes the data directories of three nodes. Their daemons start with the first command of the story, in its environment.
func newFleet(t testing.TB, s *fleetServers) *garden {
	t.Helper()
	f := &fleet{t: t, net: network.New(t, size)}
	database := s.database.ProxyAt(t, f.net.Listen(0, network.Address(0)+":0")).URL(s.database.Database(t))
	seed, err := seeded()
	if err != nil {
		t.Fatal(err)
	}
	if f.base, err = os.MkdirTemp("", gardens); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(f.base, "bin", "hortus")
	g := &garden{t: t, dir: filepath.Join(f.base, "n1"), program: program, fleet: f}
	f.garden = g
	g.env = append(environment(f.base, program), "HORTUS_DATA_DIR="+g.dir, "HORTUS_POOL=0", "HORTUS_IDLE=1h",
		"HORTUS_STORE_URL="+database, "HORTUS_STORE_KEY_FILE="+filepath.Join(f.base, "key"),
		fmt.Sprintf("HORTUS_LAYER_ARCHIVE=s3://%s/fleet%d?endpoint=%s", archivetest.Bucket, s.fleets.Add(1), s.archive))
	g.reach(s.archive)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"} {
		g.env = append(g.env, name+"="+os.Getenv(name))
	}
	t.Cleanup(func() {
		f.end()
		if t.Failed() {
			f.logs()
		}
		remove(t, f.base)
	})
	f.write("next", "1\n", 0o600)
	if err := os.Mkdir(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range size {
		n := fmt.Sprint("n", i+1)
		node := &garden{t: t, dir: filepath.Join(f.base, n), program: filepath.Join(f.base, "bin", n)}
		if err := seed.Plant(node.dir); err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, node)
		f.write("bin/"+n, fmt.Sprintf(`#!/bin/sh
export HORTUS_DATA_DIR=%s HORTUS_FLEET_NAME=%s HORTUS_FLEET_LISTEN=%s:7071
exec nsenter --net=%s -- %s "$@"
`, node.dir, n, network.Address(i+1), f.net.Path(i+1), binary), 0o700)
	}
	// A command with a host of its own is not of this machine.
	f.write("bin/hortus", fmt.Sprintf(`#!/bin/sh
test -n "$HORTUS_HOST" && exec %[2]s "$@"
exec 9>%[1]s/lock
flock 9
if ! test -e %[1]s/started; then
	%[1]s/bin/start >%[1]s/start.log 2>&1 9>&- || { cat %[1]s/start.log >&2; exit 99; }
	touch %[1]s/started
fi
n=$(cat %[1]s/next)
echo $((n %% %[3]d + 1)) >%[1]s/next
echo n$n "$@" >>%[1]s/commands
exec 9>&-
exec %[1]s/bin/n$n "$@"
`, f.base, binary, size), 0o700)
	f.write("bin/start", fmt.Sprintf(`#!/bin/sh -e
cd %s/bin
unset HORTUS_JSON HORTUS_QUIET
for n in n1 n2 n3; do ./$n sandbox ls; done
./n1 fleet init
until ./n1 fleet ls --json | grep -c '"state": "ready"' | grep %d; do sleep 0.2; done
`, f.base, size), 0o700)
	return g
}

func (f *fleet) write(name, text string, mode os.FileMode) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.base, name), []byte(text), mode); err != nil {
		f.t.Fatal(err)
	}
}

// members are the gardens of the nodes, or the one of a daemon alone.
func (g *garden) members() []*garden {
	if g.fleet == nil {
		return []*garden{g}
	}
	for _, n := range g.fleet.nodes {
		n.env = g.env
	}
	return g.fleet.nodes
}

// reach has the nodes of a fleet reach a server of the test at its own address, which is of this machine only.
func (g *garden) reach(server string) {
	g.t.Helper()
	if g.fleet == nil {
		return
	}
	at, err := url.Parse(server)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := range size {
		network.Forward(g.t, g.fleet.net.Listen(i+1, at.Host), func() (net.Conn, error) { return net.Dial("tcp", at.Host) })
	}
}

// front is an address that leads each connection to the next node, here and at each node.
func (f *fleet) front(urls []string) string {
	f.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	var next atomic.Int64
	network.Forward(f.t, l, func() (net.Conn, error) {
		i := int(next.Add(1)) % size
		return f.net.Dial(i+1, strings.TrimPrefix(urls[i], "http://"))
	})
	front := "http://" + l.Addr().String()
	f.garden.reach(front)
	return front
}

// stop stops all daemons, and what they run. The next command starts them again.
func (f *fleet) stop() {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.base, "started")); err != nil {
		f.t.Error(err)
	}
	var all sync.WaitGroup
	for _, n := range f.garden.members() {
		all.Go(func() {
			c := n.client()
			defer c.Close()
			if _, err := c.Info(context.Background()); err != nil {
				return // no daemon
			}
			if r := n.run("daemon", "stop", "--force"); r.code != 0 {
				f.t.Errorf("daemon stop: %s", r)
			}
		})
	}
	all.Wait()
}

// end stops all daemons and wants nothing to be left.
func (f *fleet) end() {
	f.t.Helper()
	f.stop()
	for _, n := range f.nodes {
		n.end()
	}
}

// logs prints what went to which node, and what each node logged.
func (f *fleet) logs() {
	for _, name := range []string{"commands", "start.log"} {
		b, _ := os.ReadFile(filepath.Join(f.base, name))
		f.t.Logf("%s:\n%s", name, b)
	}
	for _, n := range f.nodes {
		f.t.Logf("log of %s:\n%s", filepath.Base(n.dir), n.log())
	}
}
