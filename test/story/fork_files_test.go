package story

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// pager makes a file, or gives pages of it a value, or says what its pages have: all words of a page are its
// value and its number. It is given a path, and what to do; it looks at several paths in one go.
const pager = `
import itertools, mmap, os, struct, sys
P = 4096
path, do, *rest = sys.argv[1:]
def page(i, value): return struct.pack("<II", value, i) * (P // 8)
if do == "make":
    value, n = map(int, rest)
    with open(path, "wb") as f:
        for i in range(n): f.write(page(i, value))
if do in ("write", "map"):
    value, first, last = map(int, rest)
    fd = os.open(path, os.O_RDWR)
    if do == "map": m = mmap.mmap(fd, os.fstat(fd).st_size)
    for i in range(first, last):
        if do == "map": m[i * P:(i + 1) * P] = page(i, value)
        else: os.pwrite(fd, page(i, value), i * P)
if do == "append":
    value, n = map(int, rest)
    first = os.stat(path).st_size // P
    with open(path, "ab") as f:
        for i in range(first, first + n): f.write(page(i, value))
if do == "cut": os.truncate(path, int(rest[0]) * P)
if do == "remove": os.unlink(path)
for path in [path] + (rest if do == "look" else []):
    if not os.path.exists(path): print("gone"); continue
    values = []
    with open(path, "rb") as f:
        for i in itertools.count():
            b = f.read(P)
            if not b: break
            value = struct.unpack_from("<I", b)[0]
            values.append(str(value) if b == page(i, value) else "page %d: %s" % (i, b[:16].hex()))
    print(",".join("%s*%d" % (v, len(list(g))) for v, g in itertools.groupby(values)))
`

// TestForksShareFiles: a fork of a sandbox does not copy the files that it holds in memory, nor does a child that
// reads them, and what one of the family does to a file, the others do not see.
func TestForksShareFiles(t *testing.T) {
	tier.Soak(t) // hundreds of megabytes; TestHostileChild has shared files
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	parent := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "30m"))
	path := filepath.Join(t.TempDir(), "pager.py")
	if err := os.WriteFile(path, []byte(pager), 0o600); err != nil {
		t.Fatal(err)
	}
	g.must("sandbox", "cp", path, parent+":/workspace/pager.py")
	pages := func(id string, args ...string) string {
		t.Helper()
		return strings.TrimSpace(g.must(append([]string{"sandbox", "exec", id, "--", "python3", "/workspace/pager.py"}, args...)...))
	}
	h := &hostileFork{t, g}
	stats := func(id string) api.Stats {
		t.Helper()
		return decode[api.Stats](t, g.must("sandbox", "stats", id, "--json"))
	}

	const big, bigPages = "/var/tmp/big", 16 << 10 // 64 MB
	want := fmt.Sprintf("1*%d", bigPages)
	if got := pages(parent, big, "make", "1", fmt.Sprint(bigPages)); got != want {
		t.Fatalf("the parent has %s", got)
	}
	child := h.fork(parent, 1)[0]
	before := stats(child)
	if got := pages(child, big, "look"); got != want {
		t.Errorf("the child has %s", got)
	}
	after := stats(child)
	t.Logf("before the child read the file it had %d MB of its own and shared %d MB; after, %d MB and %d MB",
		before.MemoryOwnBytes>>20, before.MemorySharedBytes>>20, after.MemoryOwnBytes>>20, after.MemorySharedBytes>>20)
	if before.MemorySharedBytes < bigPages*4096 || after.MemoryOwnBytes-before.MemoryOwnBytes > bigPages*4096/2 {
		t.Errorf("the child does not share a file of %d MB", bigPages*4096>>20)
	}
	g.must("sandbox", "kill", child)

	// Each of the family does something else, at the same time.
	for name, n := range map[string]string{"a": "64", "b": "64", "c": "64"} {
		pages(parent, "/var/tmp/"+name, "make", "1", n)
	}
	children := h.fork(parent, 4)
	grand := h.fork(children[3], 1)[0]
	snapshot := strings.TrimSpace(g.must("sandbox", "snapshot", "--quiet", children[3]))
	restored := strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--template", snapshot))
	late := h.fork(restored, 1)[0]
	type act struct{ file, do, want string }
	acts := map[string][]act{
		parent:      {{"a", "write 10 5 9", "1*5,10*4,1*55"}, {"b", "append 10 3", "1*64,10*3"}, {"c", "look", "1*64"}},
		children[0]: {{"a", "write 11 0 64", "11*64"}, {"b", "cut 10", "1*10"}, {"c", "remove", "gone"}},
		children[1]: {{"a", "map 12 3 60", "1*3,12*57,1*4"}, {"b", "map 12 63 64", "1*63,12*1"}, {"c", "make 12 8", "12*8"}},
		children[2]: {{"a", "cut 0", ""}, {"b", "append 13 70", "1*64,13*70"}, {"c", "write 13 63 66", "1*63,13*3"}},
		children[3]: {{"a", "look", "1*64"}, {"b", "look", "1*64"}, {"c", "look", "1*64"}},
		grand:       {{"a", "map 14 0 1", "14*1,1*63"}, {"b", "write 14 0 64", "14*64"}, {"c", "append 14 1", "1*64,14*1"}},
		restored:    {{"a", "write 15 63 64", "1*63,15*1"}, {"b", "map 15 0 64", "15*64"}, {"c", "cut 63", "1*63"}},
		late:        {{"a", "append 16 5", "1*64,16*5"}, {"b", "write 16 1 2", "1*1,16*1,1*62"}, {"c", "map 16 62 64", "1*62,16*2"}},
	}
	var wg sync.WaitGroup
	for id, list := range acts {
		wg.Go(func() {
			for _, a := range list {
				if r := g.patient(append([]string{"sandbox", "exec", id, "--", "python3", "/workspace/pager.py", "/var/tmp/" + a.file}, strings.Fields(a.do)...)...); r.code != 0 || strings.TrimSpace(r.stdout) != a.want {
					t.Errorf("%s: after %s %s: %s", id, a.do, a.file, r)
				}
			}
		})
	}
	wg.Wait()
	// The forks of all of them have what these have, and so have they themselves.
	for id, list := range acts {
		for _, who := range append(h.fork(id, 1), id) {
			look, wants := []string{big, "look"}, want
			for _, a := range list {
				look, wants = append(look, "/var/tmp/"+a.file), wants+"\n"+a.want
			}
			if got := pages(who, look...); got != wants {
				t.Errorf("%s has\n%s\nin %q, not\n%s", who, got, look, wants)
			}
			if who != id {
				g.must("sandbox", "kill", who)
			}
		}
	}
}
