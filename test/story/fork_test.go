package story

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// holder is a program with a hundred megabytes, a counter, an open file and a listening
// socket. Each connection counts once, writes the count to the open file and answers
// with everything that the program knows.
const holder = `
import hashlib, os, socket
data = bytearray(os.urandom(1 << 20) * 100)
f = open("/workspace/log", "w+")
n = 0
s = socket.socket()
s.bind(("127.0.0.1", 7007))
s.listen(8)
open("/workspace/ready", "w").close()
while True:
    c, _ = s.accept()
    word = c.recv(100).decode()
    n += 1
    data[n] = (data[n] + len(word)) % 256
    f.write("%d %s\n" % (n, word))
    f.flush()
    c.sendall(("%d %d %s %d" % (n, f.tell(), hashlib.sha256(data).hexdigest(), os.getpid())).encode())
    c.close()
`

// asking connects to it with a word.
const asking = `
import socket, sys
s = socket.create_connection(("127.0.0.1", 7007))
s.sendall(sys.argv[1].encode())
print(s.recv(1000).decode())
`

// TestForkOfAProgram forks a program with all that it holds, in T2 five times. They continue
// from one state and part: values, the file, its offset, the memory. Each child is
// somebody else.
func TestForkOfAProgram(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.unpooled()
	g.canSaveMemory()
	count := tier.Count(2, 5)
	dir := t.TempDir()
	for name, text := range map[string]string{"holder.py": holder, "asking.py": asking} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parent := strings.TrimSpace(g.must("sandbox", "create", "--isolation", "gvisor", "--ttl", "10m"))
	for _, name := range []string{"holder.py", "asking.py"} {
		g.must("sandbox", "cp", filepath.Join(dir, name), parent+":/workspace/"+name)
	}
	g.must("sandbox", "exec", parent, "--", "sh", "-c",
		"setsid python3 holder.py </dev/null >holder.out 2>&1 & until [ -e ready ]; do sleep 0.05; done")
	ask := func(id, word string) string {
		t.Helper()
		return strings.TrimSpace(g.must("sandbox", "exec", id, "--", "python3", "asking.py", word))
	}
	first := ask(parent, "first")
	fork := decode[api.ForkResult](t, g.must("sandbox", "fork", parent, "--count", strconv.Itoa(count), "--json"))
	if fork.Kind != api.SnapshotMemory || fork.PausedMS <= 0 || len(fork.Children) != count {
		t.Fatalf("%+v", fork)
	}
	t.Logf("the parent was paused for %d ms", fork.PausedMS)
	all := []string{parent}
	for i, c := range fork.Children {
		if c.Sandbox == nil {
			t.Fatalf("child %d: %v", i, c.Error)
		}
		all = append(all, string(c.Sandbox.ID))
	}
	// The same word has the same effect on each: one state. Different words part them.
	same := ask(parent, "same")
	if !strings.HasPrefix(same, "2 15 ") || same == first {
		t.Errorf("after %q came %q", first, same)
	}
	for _, id := range all[1:] {
		if got := ask(id, "same"); got != same {
			t.Errorf("%s answers %q, its parent %q", id, got, same)
		}
	}
	seen := map[string]string{}
	for i, id := range all {
		word := strings.Repeat("x", i+1)
		got := ask(id, word)
		if want := fmt.Sprintf("3 %d ", 15+len(word)+3); !strings.HasPrefix(got, want) {
			t.Errorf("%s answers %q, not %q", id, got, want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are still one", id, other)
		}
		seen[got] = id
		if log := g.must("sandbox", "exec", id, "--", "cat", "log"); log != "1 first\n2 same\n3 "+word+"\n" {
			t.Errorf("%s wrote %q", id, log)
		}
		who := g.must("sandbox", "exec", id, "--", "sh", "-c", "hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1")
		for line := range strings.Lines(who) {
			if other, ok := seen[line]; ok {
				t.Errorf("%s and %s are both %s", id, other, line)
			}
			seen[line] = id
		}
	}
}
