package story

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// How copies of a program relate to each other in what a generator gives.
const (
	own    = "own"    // each has its own
	after  = "after"  // the same, until the program seeds its generator after the restore
	common = "common" // may be the same for ever
)

// generator is a program that answers with random numbers at a port.
type generator struct {
	name, command string
	port          int
	// files are copied to the sandbox. needs are programs of this machine that make them, with how.
	files []string
	needs string
	build []string
	// values are what it answers with.
	values map[string]string
}

var generators = []generator{{
	name: "node", command: "node draw.js", port: 7301, files: []string{"draw.js", "reseed.node"},
	needs: "gcc", build: []string{"gcc", "-shared", "-fPIC", "-o", "reseed.node", "reseed.c"},
	values: map[string]string{
		"fs.readSync(urandom)": own, "crypto.randomBytes": after, "crypto.getRandomValues": after, "crypto.randomUUID": after, "ECDH": after, "Math.random": common,
	},
}, {
	name: "python3", command: "python3 draw.py", port: 7302, files: []string{"draw.py"},
	values: map[string]string{
		"os.urandom": own, "secrets.token_hex": own, "uuid.uuid4": own, "ssl.RAND_bytes": after, "random.random": after,
	},
}, {
	name: "go", command: "./draw-go", port: 7303, files: []string{"draw-go"},
	needs: "go", build: []string{"go", "build", "-o", "draw-go", "draw.go"},
	values: map[string]string{
		"crypto/rand.Read": own, "crypto/ecdh": own, "math/rand/v2.PCG": after, "math/rand/v2.Uint64": common,
	},
}, {
	name: "java", command: "java Draw", port: 7304, files: []string{"Draw.class"},
	needs: "javac", build: []string{"javac", "--release", "17", "Draw.java"},
	values: map[string]string{
		"SecureRandom": own, "UUID.randomUUID": own, "KeyPairGenerator(EC)": own, "SecureRandom(DRBG)": after, "Random": after, "Math.random": common,
	},
}}

// wiped is a program with a page that is advised to be wiped on fork.
var wiped = generator{name: "wipe", command: "./wipe", port: 7305, files: []string{"wipe"},
	needs: "gcc", build: []string{"gcc", "-O1", "-static", "-o", "wipe", "wipe.c"}}

// askingFor connects to a port with a word and prints the answer.
const askingFor = `
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall((sys.argv[2] + "\n").encode())
while b := s.recv(4096):
    sys.stdout.write(b.decode())
`

// prepared makes the files of a generator, or says why it cannot run.
func (p generator) prepared(t *testing.T, dir string) (why string) {
	t.Helper()
	if p.needs == "" {
		return ""
	}
	if _, err := exec.LookPath(p.needs); err != nil {
		return "this machine has no " + p.needs
	}
	cmd := exec.Command(p.build[0], p.build[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, out)
	}
	return ""
}

// answer asks the program in a sandbox for its values.
func (p generator) answer(g *garden, id string) map[string]string {
	g.t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(g.must("sandbox", "exec", id, "--", "python3", "ask.py", strconv.Itoa(p.port), "draw")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		values[name] = value
	}
	return values
}

// TestRandomNumbersOfCopies: which random numbers of a program are the same in two children of a fork, and in
// sandboxes of two accounts from a warm template; in T2 also of Go and Java. Those of the kernel never are, and what a program can seed is
// not once it has done so because the on-restore command told it to. A page that is to be wiped on fork is.
func TestRandomNumbersOfCopies(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	w := &wire{t: t, g: g}
	defer w.end()
	g.must("daemon", "stop")
	w.serve()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/random")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ask.py"), []byte(askingFor), 0o600); err != nil {
		t.Fatal(err)
	}

	parent := strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--ttl", "10m", "--memory", "1G"))
	if r := g.run("sandbox", "exec", parent, "--", "python3", "-c", "import ssl"); r.code != 0 {
		t.Skipf("sandboxes here have no python3 with ssl: %s", r)
	}
	g.must("sandbox", "cp", filepath.Join(dir, "ask.py"), parent+":/workspace/ask.py")
	all := append(slices.Clone(generators), wiped)
	if !tier.Soaking() {
		all = slices.DeleteFunc(all, func(p generator) bool { return p.name == "go" || p.name == "java" }) // they take twenty seconds
	}
	var running []generator
	var hook strings.Builder
	for _, p := range all {
		program, _, _ := strings.Cut(p.command, " ")
		why := p.prepared(t, dir)
		if why == "" && !strings.Contains(program, "/") && g.run("sandbox", "exec", parent, "--", "sh", "-c", "command -v "+program).code != 0 {
			why = "sandboxes here have no " + program
		}
		if why != "" {
			t.Logf("%s is not tested: %s", p.name, why)
			continue
		}
		for _, f := range p.files {
			g.must("sandbox", "cp", filepath.Join(dir, f), parent+":/workspace/"+f)
		}
		g.must("sandbox", "exec", parent, "--", "sh", "-c",
			"chmod +x "+p.files[0]+"; setsid "+p.command+" </dev/null >"+p.name+".out 2>&1 & until [ -e "+p.name+".ready ]; do kill -0 $! || { cat "+p.name+".out; exit 1; }; sleep 0.05; done")
		running = append(running, p)
		hook.WriteString("python3 ask.py " + strconv.Itoa(p.port) + " hook\n")
	}

	generations := map[string]string{}
	compare := func(how string, hooked bool, a, b string) {
		t.Helper()
		for _, id := range []string{parent, a, b} {
			n := strings.TrimSpace(g.must("sandbox", "exec", id, "--", "cat", "/run/hortus/generation"))
			if other, ok := generations[n]; len(n) != 32 || ok && other != id {
				t.Errorf("%s: %s has generation %q, as %q has", how, id, n, other)
			}
			generations[n] = id
		}
		for _, p := range running {
			x, y := p.answer(g, a), p.answer(g, b)
			if p.name == wiped.name {
				for _, v := range []map[string]string{x, y} {
					if v["wiped"] != "0" || v["kept"] != "kept" || v["plain"] != "plain" {
						t.Errorf("%s: the pages are %q", how, v)
					}
				}
				continue
			}
			for name, kind := range p.values {
				same := x[name] == y[name]
				t.Logf("%s, %s, %s: same %t", how, p.name, name, same)
				switch {
				case x[name] == "" || y[name] == "":
					t.Errorf("%s: %s did not answer: %q and %q", how, name, x, y)
				case same && (kind == own || kind == after && hooked):
					t.Errorf("%s: two copies of %s have the same %s: %s", how, p.name, name, x[name])
				case !same && kind == after && !hooked:
					t.Errorf("%s: copies of %s differ in %s by themselves: docs/forks.md says otherwise", how, p.name, name)
				}
			}
		}
		for _, id := range []string{a, b} {
			g.must("sandbox", "kill", id)
		}
	}
	account := func(name string) *garden {
		as := *g
		key := strings.TrimSpace(g.must("key", "create", "--account", name, "--quiet"))
		as.env = append(slices.Clone(g.env), "HORTUS_HOST=http://"+w.addr, "HORTUS_API_KEY="+key)
		return &as
	}
	alice, bob := account("alice"), account("bob")
	for _, hooked := range []bool{false, true} {
		args, how := []string{}, "without a command"
		if hooked {
			args, how = []string{"--on-restore", hook.String()}, "with an on-restore command"
		}
		kids := strings.Fields(g.must(append([]string{"sandbox", "fork", "--quiet", parent, "--count", "2"}, args...)...))
		if len(kids) != 2 {
			t.Fatalf("children: %q", kids)
		}
		compare("a fork "+how, hooked, kids[0], kids[1])
		s := decode[api.Snapshot](t, g.must(append([]string{"sandbox", "snapshot", "--json", "--name", "warm", parent}, args...)...))
		for _, p := range running {
			if !slices.ContainsFunc(s.Listeners, func(l api.Listener) bool { return l.Port == p.port && l.PID > 1 && l.Command != "" }) {
				t.Errorf("the template does not name %s at port %d: %+v, %s", p.name, p.port, s.Listeners, s.ListenersError)
			}
		}
		start := func(as *garden) string {
			return strings.TrimSpace(as.must("sandbox", "create", "--quiet", "--ttl", "10m", "--template", "warm"))
		}
		compare("a template "+how, hooked, start(alice), start(bob))
	}

	// The original is not a copy. A sandbox that is paused to disk continues from a copy, and is treated as one.
	wipes := slices.ContainsFunc(running, func(p generator) bool { return p.name == wiped.name })
	if wipes && wiped.answer(g, parent)["wiped"] != "wiped" {
		t.Error("the page of the parent was wiped")
	}
	before := g.must("sandbox", "exec", parent, "--", "cat", "/run/hortus/generation")
	g.must("sandbox", "pause", "--to-disk", parent)
	g.must("sandbox", "resume", parent)
	if after := g.must("sandbox", "exec", parent, "--", "cat", "/run/hortus/generation"); after == before {
		t.Error("a resumed sandbox has the generation that it had")
	}
	if wipes && wiped.answer(g, parent)["wiped"] != "0" {
		t.Error("the page of a resumed sandbox was not wiped")
	}
}
