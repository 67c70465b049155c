package story

import (
	"fmt"
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

// Each of these programs remembers every word that it was ever sent, makes garbage, and answers a
// word with the number of words and a sum over all of them: a page of its memory that is not its own
// makes another sum.
const (
	pythonProgram = `
import socket
words = []
s = socket.create_server(("127.0.0.1", 7101))
while True:
    c, _ = s.accept()
    words.append(c.recv(100).decode())
    waste = [bytearray(1 << 20) for _ in range(4)]
    h = 7
    for w in words:
        for b in w.encode(): h = (h * 31 + b) % 1000003
    c.sendall(b"%d %d" % (len(words), h))
    c.close()
`
	nodeProgram = `
const net = require("net"), words = []
setInterval(() => { globalThis.waste = new Array(10000).fill({}) }, 20)
net.createServer(c => c.on("data", d => {
  words.push(d.toString())
  let h = 7
  for (const w of words) for (const b of Buffer.from(w)) h = (h * 31 + b) % 1000003
  c.write(words.length + " " + h)
})).listen(7102, "127.0.0.1")
`
	// nodeClient has one connection to the server of Node, over which every word goes.
	nodeClient = `
import socket, time
while True:
    try: server = socket.create_connection(("127.0.0.1", 7102)); break
    except OSError: time.sleep(0.05)
s = socket.create_server(("127.0.0.1", 7103))
while True:
    c, _ = s.accept()
    server.sendall(c.recv(100))
    c.sendall(server.recv(100))
    c.close()
`
	javaProgram = `
import java.net.*;
import java.util.*;
public class Counter {
  static byte[][] waste = new byte[8][];
  public static void main(String[] args) throws Exception {
    List<byte[]> words = new ArrayList<>();
    ServerSocket s = new ServerSocket(7104, 8, InetAddress.getByName("127.0.0.1"));
    while (true) {
      try (Socket c = s.accept()) {
        byte[] b = new byte[100];
        words.add(Arrays.copyOf(b, Math.max(0, c.getInputStream().read(b))));
        for (int i = 0; i < 64; i++) waste[i % 8] = new byte[1 << 20];
        long h = 7;
        for (byte[] w : words) for (byte x : w) h = (h * 31 + x) % 1000003;
        c.getOutputStream().write((words.size() + " " + h).getBytes());
      }
    }
  }
}
`
	goProgram = `
package main

import (
	"fmt"
	"net"
)

var waste [8][]byte

func main() {
	var words []string
	l, err := net.Listen("tcp", "127.0.0.1:7105")
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		b := make([]byte, 100)
		n, _ := c.Read(b)
		words = append(words, string(b[:n]))
		for i := range 64 {
			waste[i%8] = make([]byte, 1<<20)
		}
		h := 7
		for _, w := range words {
			for _, x := range []byte(w) {
				h = (h*31 + int(x)) % 1000003
			}
		}
		fmt.Fprintf(c, "%d %d", len(words), h)
		c.Close()
	}
}
`
	// askAll sends a word to the ports that are named, and waits for those that do not listen yet.
	askAll = `
import socket, sys, time
for port in sys.argv[2:]:
    for turn in range(1200):
        try: s = socket.create_connection(("127.0.0.1", int(port))); break
        except OSError: time.sleep(0.05)
    s.sendall(sys.argv[1].encode())
    print(port, s.recv(100).decode())
`
)

// programs are sandboxes in which the same programs run, with the words that each was sent.
type programs struct {
	g     *garden
	ports []string
	words map[string][]string
}

// ask sends a word to all programs of a sandbox, and wants each to know all words that this sandbox
// and its ancestors were sent.
func (p *programs) ask(id, word string) {
	p.g.t.Helper()
	p.words[id] = append(p.words[id], word)
	h := 7
	for _, w := range p.words[id] {
		for _, b := range []byte(w) {
			h = (h*31 + int(b)) % 1000003
		}
	}
	var want strings.Builder
	for _, port := range p.ports {
		fmt.Fprintf(&want, "%s %d %d\n", port, len(p.words[id]), h)
	}
	args := append([]string{"sandbox", "exec", id, "--", "python3", "ask.py", word}, p.ports...)
	if got := p.g.must(args...); got != want.String() {
		p.g.t.Errorf("%s answers %q with\n%s, not\n%s", id, word, got, &want)
	}
}

// fork makes children, and returns how long their parent stood still.
func (p *programs) fork(id string, n int) (children []string, pausedMS int64) {
	p.g.t.Helper()
	r := p.g.patient("sandbox", "fork", id, "--count", strconv.Itoa(n), "--ttl", "30m", "--json")
	if r.code != 0 {
		p.g.t.Fatalf("fork of %s: %s", id, r)
	}
	f := decode[api.ForkResult](p.g.t, r.stdout)
	if f.Kind != api.SnapshotMemory || len(f.Children) != n {
		p.g.t.Fatalf("fork of %s: %+v", id, f)
	}
	for i, c := range f.Children {
		if c.Sandbox == nil {
			p.g.t.Fatalf("child %d of %s: %v", i, id, c.Error)
		}
		child := string(c.Sandbox.ID)
		p.words[child] = slices.Clone(p.words[id])
		children = append(children, child)
	}
	return children, f.PausedMS
}

// TestForkOfPrograms forks a sandbox in which programs of Python, Node, Java and Go run, and a child
// of it once more. All go on, each by itself, also after the parent and the child have ended.
func TestForkOfPrograms(t *testing.T) {
	tier.Soak(t) // TestForkOfAProgram is its small counterpart
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_MAX_SANDBOXES=30")
	g.canSaveMemory()
	dir := t.TempDir()
	files := map[string]string{"python.py": pythonProgram, "node.js": nodeProgram, "client.py": nodeClient, "ask.py": askAll, "Counter.java": javaProgram, "counter.go": goProgram}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := func(env []string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	build([]string{"CGO_ENABLED=0"}, "go", "build", "-o", "counter", "counter.go")

	parent := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "gvisor", "--ttl", "30m"))
	has := func(program string) bool {
		return g.run("sandbox", "exec", parent, "--", "sh", "-c", "command -v "+program).code == 0
	}
	p := &programs{g: g, words: map[string][]string{}}
	copied := []string{"ask.py"}
	var start []string
	add := func(port, command string, names ...string) {
		p.ports, start, copied = append(p.ports, port), append(start, command), append(copied, names...)
	}
	add("7101", "python3 python.py", "python.py")
	add("7105", "./counter", "counter")
	if has("node") {
		start = append(start, "node node.js")
		add("7103", "python3 client.py", "node.js", "client.py")
	} else {
		t.Log("Node is not tried: the template has none")
	}
	if _, err := exec.LookPath("javac"); err != nil || !has("java") {
		t.Logf("Java is not tried: the template has no java, or this machine no javac (%v)", err)
	} else {
		build(nil, "javac", "Counter.java")
		add("7104", "java -Xmx64m -XX:+UseSerialGC Counter", "Counter.class")
	}
	for _, name := range copied {
		g.must("sandbox", "cp", filepath.Join(dir, name), parent+":/workspace/"+name)
	}
	for i, command := range start {
		g.must("sandbox", "exec", parent, "--", "sh", "-c", fmt.Sprintf("chmod +x counter; setsid %s </dev/null >%d.out 2>&1 &", command, i))
	}
	p.ask(parent, "first")
	p.ask(parent, "second")

	children, paused := p.fork(parent, tier.Count(3, 20))
	t.Logf("%d children, ports %v; the parent stood still for %d ms", len(children), p.ports, paused)
	all := append([]string{parent}, children...)
	for i, id := range all {
		p.ask(id, fmt.Sprintf("of-%d", i))
	}
	grand, _ := p.fork(children[0], 1)
	all = append(all, grand...)
	for round := range 2 {
		for i, id := range all {
			p.ask(id, fmt.Sprintf("round-%d-of-%d", round, i))
		}
	}
	g.must("sandbox", "kill", parent)
	g.must("sandbox", "kill", children[0])
	for round := range 2 {
		for i, id := range all[2:] {
			p.ask(id, fmt.Sprintf("later-%d-of-%d", round, i))
		}
	}
}
