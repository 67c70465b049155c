package story

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hortus.dev/api"
)

// stamper has memory in parts, of which the last but one is shared memory, the last is a file, and the others
// are private. All words of a page are the value of its part and the number of the page. It answers every connection with the
// values of all parts, and with the pages that have something else, after it has given a new value to
// the parts that it was sent.
const stamper = `
import mmap, os, socket, struct, sys
parts, pages = int(sys.argv[1]), int(sys.argv[2])
n = parts * pages
private = mmap.mmap(-1, n * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
shared = mmap.mmap(-1, pages * 4096)
class File:
    def __init__(self, path): self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    def __getitem__(self, at): return os.pread(self.fd, at.stop - at.start, at.start)
    def __setitem__(self, at, b): os.pwrite(self.fd, b, at.start)
file = File("/var/tmp/stamped")
def page(p, value): return struct.pack("<II", value, p) * 512
def where(p):
    if p < n: return private, p * 4096
    return (shared, (p - n) * 4096) if p < n + pages else (file, (p - n - pages) * 4096)
def put(part, value):
    for p in range(part * pages, (part + 1) * pages):
        m, at = where(p)
        m[at:at + 4096] = page(p, value)
for part in range(parts + 2): put(part, 0)
s = socket.create_server(("127.0.0.1", 7101))
while True:
    c, _ = s.accept()
    word = c.recv(1000).decode()
    if word != "?":
        value, *chosen = map(int, word.split(","))
        for part in chosen: put(part, value)
    answer, bad = [], []
    for part in range(parts + 2):
        m, at = where(part * pages)
        value = struct.unpack("<I", m[at:at + 4])[0]
        answer.append(str(value))
        for p in range(part * pages, (part + 1) * pages):
            m, at = where(p)
            if m[at:at + 4096] != page(p, value): bad.append("page %d has %s" % (p, m[at:at + 16].hex()))
    c.sendall("\n".join([" ".join(answer)] + bad[:5]).encode())
    c.close()
`

// askOnce sends a word, and prints what is answered. If nobody answers, it says what runs.
const askOnce = `
import glob, socket, sys, time
for turn in range(600):
    try: s = socket.create_connection(("127.0.0.1", 7101)); break
    except OSError as e: why = e; time.sleep(0.05)
else:
    print(why, [open(p).read() for p in glob.glob("/proc/[0-9]*/cmdline")], open("/workspace/stamper.out").read())
    sys.exit(1)
s.sendall(sys.argv[1].encode())
while b := s.recv(4096): sys.stdout.write(b.decode())
`

// stampFiles has such values in files instead, and does what it is asked itself. Each part has some files
// of its own: what is not in one of its files is as wrong as a page with something else.
const stampFiles = `
import glob, os, sys
parts, files, word = 10, 40, sys.argv[1]
def name(part, i): return "/workspace/part%d/%d" % (part, i)
if word != "?":
    value, *chosen = map(int, word.split(","))
    for part in chosen:
        if value % 3 == 0:
            for f in glob.glob("/workspace/part%d/*" % part): os.remove(f)
            if os.path.isdir("/workspace/part%d" % part): os.rmdir("/workspace/part%d" % part)
        os.makedirs("/workspace/part%d" % part, exist_ok=True)
        for i in range(files):
            with open(name(part, i) + ".new", "w") as f: f.write(str(value))
            os.rename(name(part, i) + ".new", name(part, i))
answer, bad = [], []
for part in range(parts):
    has = sorted(os.listdir("/workspace/part%d" % part)) if os.path.isdir("/workspace/part%d" % part) else []
    values = {open("/workspace/part%d/%s" % (part, f)).read() for f in has} or {"0"}
    answer.append(values.pop())
    if values or len(has) not in (0, files): bad.append("part %d has %d files with %s" % (part, len(has), values))
print("\\n".join([" ".join(answer)] + bad[:5]))
`

// How much memory the program has: so many private parts of so many pages, one shared, and a file.
const (
	stampParts = 8
	stampPages = 512
	stampAll   = stampParts + 2
)

// stamps are the values of the parts of a sandbox's memory.
type stamps [stampAll]int

func (s stamps) String() string {
	return strings.Trim(fmt.Sprint([stampAll]int(s)), "[]")
}

// family is a sandbox with that program, what was forked and restored from it, and snapshots of all
// these, with the values that the memory of each must have.
type family struct {
	t    *testing.T
	g    *garden
	root string
	// run is where the daemon has the directories of its sandboxes, below its own.
	run string

	mu        sync.Mutex
	last      int // the last value that was used
	sandboxes map[string]stamps
	snapshots map[string]stamps
}

// newFamily starts the first sandbox.
func newFamily(t *testing.T, g *garden) *family {
	t.Helper()
	f := &family{t: t, g: g, run: "run/gvisor", sandboxes: map[string]stamps{}, snapshots: map[string]stamps{}}
	f.root = strings.TrimSpace(g.must("sandbox", "create", "--ttl", "3h"))
	dir := t.TempDir()
	for name, text := range map[string]string{"stamper.py": stamper, "ask.py": askOnce} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		g.must("sandbox", "cp", filepath.Join(dir, name), f.root+":/workspace/"+name)
	}
	g.must("sandbox", "exec", f.root, "--", "sh", "-c", fmt.Sprintf("setsid sh -c 'python3 -X faulthandler stamper.py %d %d; echo it ended with $?' </dev/null >stamper.out 2>&1 &", stampParts, stampPages))
	f.sandboxes[f.root] = stamps{}
	f.check(f.root, stamps{})
	return f
}

// newFileFamily starts the first sandbox of a family whose values are in files. It has enough files that children
// share them.
func newFileFamily(t *testing.T, g *garden) *family {
	t.Helper()
	f := &family{t: t, g: g, run: "run/container", sandboxes: map[string]stamps{}, snapshots: map[string]stamps{}}
	f.root = strings.TrimSpace(g.must("sandbox", "create", "--ttl", "3h"))
	path := filepath.Join(t.TempDir(), "ask.py")
	if err := os.WriteFile(path, []byte(stampFiles), 0o600); err != nil {
		t.Fatal(err)
	}
	g.must("sandbox", "cp", path, f.root+":/workspace/ask.py")
	g.must("sandbox", "exec", f.root, "--", "sh", "-c", "head -c 9000000 /dev/urandom > /workspace/ballast; touch /workspace/stamper.out")
	f.sandboxes[f.root] = stamps{}
	f.check(f.root, stamps{})
	return f
}

// can are those of the verbs that the sandboxes of the family can do.
func (f *family) can(verbs []string) []string {
	if f.run == "run/gvisor" {
		return verbs
	}
	return slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool { return verb == "suspend" }) // which saves memory
}

// answers are the values that a sandbox has after a word; what else it has is an error.
func (f *family) answers(id, word string, want stamps) {
	f.t.Helper()
	r := f.g.patient("sandbox", "exec", id, "--", "python3", "/workspace/ask.py", word)
	if got := strings.TrimSpace(r.stdout); r.code != 0 || got != want.String() {
		said := f.g.patient("sandbox", "exec", id, "--", "cat", "/workspace/stamper.out")
		f.t.Errorf("after %q sandbox %s has\n%s (%s), not\n%s; its program said %s\n%s", word, id, got, strings.TrimSpace(r.stderr), want, said, f.g.run("sandbox", "show", "--json", id))
	}
}

// check wants every page of a sandbox to have what it must have.
func (f *family) check(id string, want stamps) { f.t.Helper(); f.answers(id, "?", want) }

// write gives parts of a sandbox a value that nobody else has.
func (f *family) write(id string, parts ...int) {
	f.t.Helper()
	f.mu.Lock()
	f.last++
	value, want := f.last, f.sandboxes[id]
	word := strconv.Itoa(value)
	for _, part := range parts {
		want[part] = value
		word += "," + strconv.Itoa(part)
	}
	f.sandboxes[id] = want
	f.mu.Unlock()
	f.answers(id, word, want)
}

// writeAll gives all parts of a sandbox such a value.
func (f *family) writeAll(id string) {
	f.t.Helper()
	var parts []int
	for part := range stampAll {
		parts = append(parts, part)
	}
	f.write(id, parts...)
}

// kept wants nothing to be kept that nobody uses: files of memory in the data directory, memory that a
// sandbox holds for others, and open files of the daemon.
func (f *family) kept(what string) {
	f.t.Helper()
	me, err := f.g.client().Info(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	until(f.t, what+": nothing is kept that nobody uses", func() string {
		sandboxes := f.g.rows()
		left := f.uselessNotes(sandboxes)
		dirs, err := os.ReadDir(filepath.Join(f.g.dir, "snapshots"))
		if err != nil && !os.IsNotExist(err) {
			return err.Error()
		}
		known := map[string]bool{}
		for _, s := range f.listed() {
			known[string(s.ID)] = true
		}
		for _, d := range dirs {
			if !known[d.Name()] && !strings.HasPrefix(d.Name(), "transient-"+string(me.Owner)) {
				left = append(left, "snapshot "+d.Name())
			}
			delete(known, d.Name())
		}
		for id := range known {
			left = append(left, "no files of snapshot "+id)
		}
		left = append(left, unseenLinks(f.g.dir)...)
		left = append(left, openMemory(daemonOf(f.g.dir))...)
		return strings.Join(left, "\n")
	})
}

// uselessNotes are the directories of bases without a sandbox, and the notes of memory that a sandbox
// holds though no other one refers to it. One that is paused gives it back when it goes on.
func (f *family) uselessNotes(sandboxes map[string]api.Sandbox) (left []string) {
	held, used := map[string]string{}, map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(f.g.dir, f.run, "*.bases"))
	if err != nil {
		return []string{err.Error()}
	}
	for _, dir := range paths {
		id := strings.TrimSuffix(filepath.Base(dir), ".bases")
		sandbox, ok := sandboxes[id]
		if !ok || sandbox.State.Final() {
			left = append(left, dir)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it was removed meanwhile
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".frozen"); ok && sandbox.State != api.SandboxPaused {
				held[name] = id
			}
			if name, ok := strings.CutSuffix(e.Name(), ".holder"); ok {
				used[name] = true
			}
		}
	}
	for name, id := range held {
		if !used[name] {
			left = append(left, fmt.Sprintf("sandbox %s holds %s", id, name))
		}
	}
	return left
}

// unseenLinks are the files of memory of which there are links elsewhere than in the data directory's
// places for them.
func unseenLinks(dir string) (left []string) {
	links, seen := map[uint64]uint64{}, map[uint64]uint64{}
	names := map[uint64]string{}
	for _, pattern := range []string{"snapshots/*/*.img", "snapshots/*/*/*.img", "run/*/*.bases/*.img"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return []string{err.Error()}
		}
		for _, path := range paths {
			var st syscall.Stat_t
			if syscall.Lstat(path, &st) == nil {
				links[st.Ino], names[st.Ino] = uint64(st.Nlink), path
				seen[st.Ino]++
			}
		}
	}
	for ino, n := range links {
		if seen[ino] != n {
			left = append(left, fmt.Sprintf("%s has %d links, of which %d are known", names[ino], n, seen[ino]))
		}
	}
	return left
}

// openMemory are the files of a process that are memory of sandboxes, or that were removed.
func openMemory(pid int) (left []string) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return []string{err.Error()}
	}
	for _, path := range paths {
		target, err := os.Readlink(path)
		if err == nil && (strings.Contains(target, "memfd:runsc-memory") || strings.Contains(target, ".img")) {
			left = append(left, fmt.Sprintf("the daemon has %s open", target))
		}
	}
	return left
}

// listed are the snapshots that are not final.
func (f *family) listed() []api.Snapshot {
	f.t.Helper()
	all := decode[[]api.Snapshot](f.t, f.g.must("snapshot", "ls", "--all", "--json"))
	return slices.DeleteFunc(all, func(s api.Snapshot) bool { return s.State.Final() })
}

// end removes everything but the first sandbox, which then has the memory that it had before.
func (f *family) end(used int64) {
	f.t.Helper()
	for _, s := range f.listed() {
		if !s.Paused {
			f.g.must("snapshot", "rm", string(s.ID))
		}
	}
	for id, s := range f.g.rows() {
		if id != f.root && !s.State.Final() {
			f.g.must("sandbox", "kill", id)
		}
	}
	if s := f.g.rows()[f.root]; s.State == api.SandboxPaused {
		f.g.must("sandbox", "resume", f.root)
	}
	f.writeAll(f.root)
	f.kept("at the end")
	until(f.t, "the first sandbox gives back what it held", func() string {
		if now := f.memory(); now > used+2*stampParts*stampPages*4096 {
			return fmt.Sprintf("it uses %d MB, and used %d MB", now>>20, used>>20)
		}
		return ""
	})
	left, err := filepath.Glob(filepath.Join(f.g.dir, f.run, "*.bases/*.frozen"))
	if err != nil || len(left) > 0 {
		f.t.Errorf("at the end there is %q, %v", left, err)
	}
	f.t.Logf("the first sandbox used %d MB, and uses %d MB", used>>20, f.memory()>>20)
	f.g.must("sandbox", "kill", f.root)
	if left := f.g.leftoversAlive(); len(left) > 0 {
		f.t.Errorf("at the end there is %q", left)
	}
	for _, pattern := range []string{f.run + "/*", "snapshots/*/*"} {
		if left, err := filepath.Glob(filepath.Join(f.g.dir, pattern)); err != nil || len(left) > 0 {
			f.t.Errorf("at the end there is %q, %v", left, err)
		}
	}
}

// memory is what the first sandbox uses, in bytes.
func (f *family) memory() int64 {
	f.t.Helper()
	return decode[api.Stats](f.t, f.g.must("sandbox", "stats", f.root, "--json")).MemoryBytes
}

// sorted are the keys of a map in the order of their text.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
