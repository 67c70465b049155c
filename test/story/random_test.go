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

// askingFor prints the generation of the sandbox, and what the program at each port answers to a word.
const askingFor = `
import socket, sys
print("0 generation", open("/run/hortus/generation").read().strip())
for port in sys.argv[2:]:
    s = socket.create_connection(("127.0.0.1", int(port)))
    s.sendall((sys.argv[1] + "\n").encode())
    for line in s.makefile():
        print(port, line, end="")
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

// drawn asks the programs in a sandbox for their values, by the port of each. Port 0 has the generation.
func drawn(g *garden, id string, programs []generator) map[int]map[string]string {
	g.t.Helper()
	values := map[int]map[string]string{}
	args := []string{"sandbox", "exec", id, "--", "python3", "ask.py", "draw"}
	for _, p := range programs {
		args = append(args, strconv.Itoa(p.port))
	}
	for line := range strings.Lines(g.must(args...)) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) < 3 {
			g.t.Fatalf("%s answers %q", id, line)
		}
		port, _ := strconv.Atoi(f[0])
		if values[port] == nil {
			values[port] = map[string]string{}
		}
		values[port][f[1]] = f[2]
	}
	return values
}

// TestRandomNumbersOfCopies: which random numbers of a program are the same in two children of a fork, and in
// sandboxes of two accounts from a warm template; in T2 also of Node, Go and Java. Those of the kernel never are, and what a program can seed is
// not once it has done so because the on-restore command told it to. A page that is to be wiped on fork is.
func TestRandomNumbersOfCopies(t *testing.T) {
	tier.Soak(t) // interpreters in children of forks; test/conformance fork/no-page-is-anothers wipes pages
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
		all = slices.DeleteFunc(all, func(p generator) bool { return p.name != "python3" && p.name != wiped.name }) // the others take twenty seconds
	}
	var running []generator
	hook := "python3 ask.py hook"
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
		hook += " " + strconv.Itoa(p.port)
	}

	first := drawn(g, parent, running)
	generations := map[string]bool{first[0]["generation"]: true}
	compare := func(how string, hooked bool, a, b string) {
		t.Helper()
		inA, inB := drawn(g, a, running), drawn(g, b, running)
		for _, n := range []string{inA[0]["generation"], inB[0]["generation"]} {
			if len(n) != 32 || generations[n] {
				t.Errorf("%s: generation %q is not one, or that of another sandbox", how, n)
			}
			generations[n] = true
		}
		for _, p := range running {
			x, y := inA[p.port], inB[p.port]
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
			args, how = []string{"--on-restore", hook}, "with an on-restore command"
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
	isWiped := func(v map[int]map[string]string, want string) {
		t.Helper()
		if page, ok := v[wiped.port]; ok && page["wiped"] != want {
			t.Errorf("the page of the parent is %q, not %q", page["wiped"], want)
		}
	}
	now := drawn(g, parent, running)
	isWiped(now, "wiped")
	if now[0]["generation"] != first[0]["generation"] {
		t.Error("the parent has another generation than before")
	}
	g.must("sandbox", "pause", "--to-disk", parent)
	g.must("sandbox", "resume", parent)
	now = drawn(g, parent, running)
	isWiped(now, "0")
	if n := now[0]["generation"]; len(n) != 32 || generations[n] {
		t.Errorf("a resumed sandbox has generation %q, which is not new", n)
	}
}
