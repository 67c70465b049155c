package story

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// attacker is a program with memory of many kinds, a block of 16 pages for each attack. All words of a page
// say which block and page it is. It answers "attack", after it has tried to change all blocks in as many
// ways, and every other line, with what each block has: p for what it had at first, c for what the program
// wrote, 0 for nothing; a number says of how many pages in a row.
const attacker = `import ctypes, os, socket, struct
N, P = 16, 4096
libc = ctypes.CDLL(None, use_errno=True)
for f in ("mremap", "mmap", "shmat"): getattr(libc, f).restype = ctypes.c_void_p
V, Z, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.argtypes, libc.munmap.argtypes = [V, Z, I, I, I, ctypes.c_long], [V, Z]
libc.mprotect.argtypes = libc.madvise.argtypes = [V, Z, I]
libc.mremap.argtypes, libc.shmat.argtypes = [V, Z, Z, I], [I, V, I]
libc.mlock.argtypes = libc.munlock.argtypes = [V, Z]
libc.fallocate.argtypes, libc.getrandom.argtypes = [I, I, ctypes.c_long, ctypes.c_long], [V, Z, I]
libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long, I, V, V], ctypes.c_long
libc.memset.argtypes, libc.memmove.argtypes = [V, I, Z], [V, V, Z]
READ, WRITE, PRIVATE, SHARED, ANON, FIXED = 1, 2, 2, 1, 0x20, 0x10
def ok(r):
    if r in (-1, 2**64 - 1): raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r
class Block:
    def __init__(self, name, fd=-1, flags=PRIVATE, at=None, reads=False):
        self.name, self.fd, self.size = name, fd, N * P
        self.number = len(blocks)
        if reads:
            for i in range(N): os.pwrite(fd, self.page(i), i * P)
            self.at = ok(libc.mmap(None, N * P, READ, SHARED, os.open("/proc/self/fd/%d" % fd, os.O_RDONLY), 0))
        else:
            self.at = at or ok(libc.mmap(None, N * P, READ | WRITE, flags | (ANON if fd < 0 else 0), fd, 0))
            for i in range(N): libc.memmove(self.at + i * P, self.page(i), P)
        blocks[name] = self
    def page(self, i): return struct.pack("<II", self.number + 1, i) * 512
    def fill(self, b="c"): libc.memset(self.at, ord(b), self.size)
    def look(self):
        out = []
        for i in range(self.size // P):
            b = ctypes.string_at(self.at + i * P, P)
            v = "p" if b == self.page(i) else "c" if b == b"c" * P else "0" if not any(b) else "?" + b[:8].hex()
            if out and out[-1][0] == v: out[-1][1] += 1
            else: out.append([v, 1])
        return self.name + "=" + ",".join(v + ("" if n == N else str(n)) for v, n in out)
blocks, attacks = {}, {}
def attack(f, **kinds):
    name = f.__name__.replace("_", "-")
    if kinds.get("file"): fd = kinds["file"]()
    else: fd = -1
    Block(name, fd, kinds.get("flags", PRIVATE), kinds["at"]() if "at" in kinds else None, kinds.get("reads"))
    attacks[name] = f
def on(**kinds): return lambda f: attack(f, **kinds)
def sized(fd): os.ftruncate(fd, N * P); return fd
def memfd(): return sized(os.memfd_create("x"))
def shm(): return sized(os.open("/dev/shm/x%d" % len(blocks), os.O_RDWR | os.O_CREAT, 0o600))
def file(): return sized(os.open("block%d" % len(blocks), os.O_RDWR | os.O_CREAT, 0o600))
def system_v(): return ok(libc.shmat(ok(libc.shmget(0, N * P, 0o1600)), None, 0))
def advise(b, how): ok(libc.madvise(b.at, b.size, how))
def vector(b, n): return struct.pack("<QQ", b, n)

@on()
def write(b): b.fill()
@on()
def write_of_half(b): libc.memset(b.at, ord("c"), b.size // 2)
@on()
def mprotect(b): ok(libc.mprotect(b.at, b.size, READ)); ok(libc.mprotect(b.at, b.size, READ | WRITE | 4)); b.fill()
@on()
def mremap_to_more(b): b.at = ok(libc.mremap(b.at, b.size, 2 * b.size, 1)); b.size *= 2
@on()
def mremap_and_write(b): b.at = ok(libc.mremap(b.at, b.size, 2 * b.size, 1)); b.size *= 2; b.fill()
@on()
def mremap_to_less(b): ok(libc.mremap(b.at, b.size, b.size // 2, 0)); ok(libc.mmap(b.at + b.size // 2, b.size // 2, READ | WRITE, PRIVATE | ANON | FIXED, -1, 0))
@on()
def map_over(b): ok(libc.munmap(b.at, b.size)); ok(libc.mmap(b.at, b.size, READ | WRITE, SHARED | ANON | FIXED, -1, 0)); b.fill()
@on()
def dontneed(b): advise(b, 4)
@on()
def free(b):
    try: advise(b, 8)
    except OSError: pass
    b.fill()
@on()
def remove(b): advise(b, 9)
@on()
def populate_write(b):
    try: advise(b, 23)
    except OSError: pass
    b.fill()
@on()
def huge_page(b): advise(b, 14); b.fill()
@on()
def no_huge_page(b): advise(b, 15); b.fill()
@on()
def mergeable(b):
    try: advise(b, 12)
    except OSError: pass
    b.fill()
@on()
def mlock(b):
    try: ok(libc.mlock(b.at, P)); ok(libc.munlock(b.at, P))
    except OSError: pass
    b.fill()
@on()
def read_into(b):
    r, w = os.pipe(); os.write(w, b"c" * N * P)
    os.readv(r, [(ctypes.c_char * b.size).from_address(b.at)])
@on()
def receive_into(b):
    r, w = socket.socketpair(); r.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20); w.sendall(b"c" * N * P)
    r.recv_into((ctypes.c_char * b.size).from_address(b.at), b.size, socket.MSG_WAITALL)
@on()
def getrandom(b): ok(libc.getrandom(b.at, b.size, 0)); b.fill()
@on()
def own_mem_file(b):
    with open("/proc/self/mem", "r+b", buffering=0) as f: f.seek(b.at); f.write(b"c" * b.size)
@on()
def process_vm_writev(b):
    a = (ctypes.c_char * b.size)(*b"c" * b.size)
    ok(libc.process_vm_writev(os.getpid(), vector(ctypes.addressof(a), b.size), 1, vector(b.at, b.size), 1, 0))
@on()
def fork(b):
    if os.fork() == 0: b.fill("d"); os._exit(0)
    os.wait()
@on()
def write_after_fork(b):
    if os.fork() == 0: os._exit(0)
    b.fill(); os.wait()
@on()
def ptrace_of_a_fork(b):
    pid = os.fork()
    if pid == 0: libc.ptrace(0, 0, None, None); os.kill(os.getpid(), 19); os._exit(0)
    os.waitpid(pid, 0)
    ok(libc.ptrace(4, pid, b.at, 0x6464646464646464)); libc.ptrace(8, pid, None, None); os.waitpid(pid, 0)
@on(flags=SHARED)
def shared_memory(b): b.fill()
@on(flags=SHARED)
def shared_memory_removed(b): advise(b, 9)
@on(flags=SHARED)
def fork_in_shared_memory(b):
    if os.fork() == 0: b.fill(); os._exit(0)
    os.wait()
@on(flags=SHARED, file=lambda: os.open("/dev/zero", os.O_RDWR))
def zero_device(b): b.fill()
@on(file=lambda: os.open("/dev/zero", os.O_RDWR))
def private_zero_device(b): b.fill()
@on(flags=SHARED, file=memfd)
def memory_file(b): b.fill()
@on(file=memfd)
def private_memory_file(b): b.fill()
@on(flags=SHARED, file=memfd)
def hole_in_a_memory_file(b): ok(libc.fallocate(b.fd, 3, 0, b.size))
@on(flags=SHARED, file=memfd)
def opened_again(b): f = os.open("/proc/self/fd/%d" % b.fd, os.O_RDWR); os.pwrite(f, b"c" * b.size, 0)
@on(flags=SHARED, file=memfd)
def cut_and_extended(b): os.ftruncate(b.fd, 0); os.ftruncate(b.fd, b.size)
@on(flags=SHARED, file=shm)
def file_in_memory(b): b.fill()
@on(file=shm)
def private_file_in_memory(b): b.fill()
@on(flags=SHARED, file=file)
def workspace_file(b): b.fill()
@on(file=file)
def private_workspace_file(b): b.fill()
@on(at=system_v)
def system_v_memory(b): b.fill()

# What these have is in a file, and a mapping that cannot be written shows it.
def other():
    f = os.memfd_create("other"); os.pwrite(f, b"c" * N * P, 0); return f
@on(reads=True, file=file)
def written(b): os.pwrite(b.fd, b"c" * b.size, 0)
@on(reads=True, file=memfd)
def written_memory_file(b): os.pwrite(b.fd, b"c" * b.size, 0)
@on(reads=True, file=file)
def appended(b):
    os.ftruncate(b.fd, 8 * P)
    f = os.open("/proc/self/fd/%d" % b.fd, os.O_WRONLY | os.O_APPEND); os.write(f, b"c" * 8 * P)
@on(reads=True, file=file)
def a_page_written_by_bytes(b):
    for i in range(P): os.pwrite(b.fd, b"c", 5 * P + i)
@on(reads=True, file=file)
def spliced(b):
    r, w = os.pipe(); os.write(w, b"c" * 8 * P); os.splice(r, b.fd, 8 * P, offset_dst=0)
@on(reads=True, file=file)
def sent(b): os.lseek(b.fd, 0, 0); os.sendfile(b.fd, other(), 0, b.size)
@on(reads=True, file=file)
def mapped_elsewhere(b):
    at = ok(libc.mmap(None, b.size, READ | WRITE, SHARED, b.fd, 0)); libc.memset(at, ord("c"), b.size); ok(libc.munmap(at, b.size))
@on(reads=True, file=file)
def mapped_by_a_fork(b):
    if os.fork() == 0:
        libc.memset(ok(libc.mmap(None, b.size, READ | WRITE, SHARED, b.fd, 0)), ord("c"), b.size); os._exit(0)
    os.wait()
@on(reads=True, file=file)
def copied_from_a_private_mapping(b):
    at = ok(libc.mmap(None, b.size, READ | WRITE, PRIVATE, b.fd, 0)); libc.memset(at, ord("c"), b.size)
@on(reads=True, file=file)
def cut_in_a_page(b): os.ftruncate(b.fd, 8 * P + 100); os.ftruncate(b.fd, b.size); os.pwrite(b.fd, b"c" * 100, 8 * P); os.pwrite(b.fd, b"c" * (P - 100), 8 * P + 100)
@on(reads=True, file=file)
def allocated(b): os.posix_fallocate(b.fd, 0, b.size)
@on(reads=True, file=file)
def emptied(b): os.open("/proc/self/fd/%d" % b.fd, os.O_WRONLY | os.O_TRUNC); os.ftruncate(b.fd, b.size)
@on(reads=True, file=file)
def unlinked(b): os.unlink(os.readlink("/proc/self/fd/%d" % b.fd)); os.pwrite(b.fd, b"c" * b.size, 0)
@on(reads=True, file=file)
def replaced(b):
    path = os.readlink("/proc/self/fd/%d" % b.fd)
    with open(path + ".new", "wb") as f: f.write(b"c" * b.size)
    os.rename(path + ".new", path)

def userfaultfd(): return libc.syscall({"x86_64": 323}.get(os.uname().machine, 282), 0)
os.mkfifo("answer"); os.mkfifo("ask")
while True:
    for line in open("ask"):
        said = []
        if line.strip() == "attack":
            if userfaultfd() >= 0: said.append("userfaultfd:it-is-there")
            for name, f in attacks.items():
                try: f(blocks[name])
                except OSError as e: said.append("%s:%s" % (name, e.strerror.replace(" ", "-")))
        print(" ".join([b.look() for b in blocks.values()] + said), file=open("answer", "w"))
`

// changed is what the program has after its attacks, where that is not c. gVisor refuses to remove pages of
// a file.
var changed = map[string]string{
	"write-of-half": "c8,p8", "mremap-to-more": "p,0", "mremap-and-write": "c32", "mremap-to-less": "p8,08", "dontneed": "0",
	"fork": "p", "ptrace-of-a-fork": "p", "cut-and-extended": "0",
	"remove": "p", "shared-memory-removed": "p", "hole-in-a-memory-file": "p",
	"appended": "p8,c8", "a-page-written-by-bytes": "p5,c1,p10", "spliced": "c8,p8", "copied-from-a-private-mapping": "p",
	"cut-in-a-page": "p8,c1,07", "allocated": "p", "emptied": "0", "replaced": "p",
}

// asks asks the program for what its blocks have, by their names, and for what was refused to it.
func (h *hostileFork) asks(id, line string) (blocks, refused map[string]string) {
	h.t.Helper()
	out := h.g.must("sandbox", "exec", id, "--", "sh", "-c", `echo "$1" >ask; cat answer`, "sh", line)
	blocks, refused = map[string]string{}, map[string]string{}
	for word := range strings.FieldsSeq(out) {
		if name, has, ok := strings.Cut(word, "="); ok {
			blocks[name] = has
		} else if name, why, ok := strings.Cut(word, ":"); ok {
			refused[name] = why
		}
	}
	if len(blocks) < 30 {
		h.t.Fatalf("%s answers %q: %s", id, out, h.g.must("sandbox", "exec", id, "--", "cat", "log"))
	}
	return blocks, refused
}

// untouched wants the program to have what it had at first.
func (h *hostileFork) untouched(who, id string) {
	h.t.Helper()
	blocks, _ := h.asks(id, "look")
	for name, has := range blocks {
		if has != "p" {
			h.t.Errorf("%s has %s in the block for %s", who, has, name)
		}
	}
}

// attacks has the program change all that it has.
func (h *hostileFork) attacks(id string) {
	h.t.Helper()
	blocks, refused := h.asks(id, "attack")
	for name, has := range blocks {
		want := changed[name]
		if want == "" {
			want = "c"
		}
		if has != want {
			h.t.Errorf("after its attack by %s the child has %s, not %s (%s)", name, has, want, refused[name])
		}
	}
	for name := range refused {
		if changed[name] != "p" {
			h.t.Errorf("the attack by %s was refused: %s", name, refused[name])
		}
	}
}

// hostileFork is a sandbox with that program, which is forked.
type hostileFork struct {
	t *testing.T
	g *garden
}

// fork makes children.
func (h *hostileFork) fork(id string, n int) (children []string) {
	h.t.Helper()
	for _, c := range decode[api.ForkResult](h.t, h.g.must("sandbox", "fork", id, "--count", strconv.Itoa(n), "--json")).Children {
		if c.Sandbox == nil {
			h.t.Fatal(c.Error)
		}
		children = append(children, string(c.Sandbox.ID))
	}
	return children
}

// TestHostileChild: a child that changes its memory and its files in every way that system calls have changes
// them for itself, not for its parent, its siblings, their parent's parent, and what a snapshot starts later.
func TestHostileChild(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.canSaveMemory()
	h := &hostileFork{t, g}
	parent := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "30m"))
	path := filepath.Join(t.TempDir(), "attacker.py")
	if err := os.WriteFile(path, []byte(attacker), 0o600); err != nil {
		t.Fatal(err)
	}
	g.must("sandbox", "cp", path, parent+":/workspace/attacker.py")
	g.must("sandbox", "exec", parent, "--", "sh", "-c", "setsid python3 attacker.py >log 2>&1 </dev/null & until [ -p ask ] || ! kill -0 $!; do sleep 0.05; done; cat log")
	h.untouched("the parent, before", parent)

	children := h.fork(parent, 3)
	h.attacks(children[0])
	h.untouched("the parent", parent)
	h.untouched("a sibling", children[1])
	grand := h.fork(children[1], 2)
	h.attacks(grand[0])
	for who, id := range map[string]string{"the parent": parent, "a sibling's child": grand[1], "its parent": children[1], "its parent's sibling": children[2]} {
		h.untouched(who, id)
	}
	snapshot := strings.TrimSpace(g.must("sandbox", "snapshot", "--quiet", children[2]))
	restored := strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--template", snapshot))
	h.attacks(restored)
	h.untouched("what the snapshot started later", strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--template", snapshot)))
	h.untouched("the snapshot's sandbox", children[2])
	h.attacks(parent)
	h.untouched("a child, after its parent's attack", children[2])
}
