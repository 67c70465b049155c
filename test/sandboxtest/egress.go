package sandboxtest

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
	"hortus.dev/test/sandboxtest/outside"
)

// prelude is what the scripts of these cases have in common. A check prints what is wrong.
//
//go:embed programs/prelude.py
var prelude string

// python runs a script after the prelude. The script prints nothing if all is well.
func (b *Sandbox) python(t *testing.T, user, script string) {
	t.Helper()
	b.run(t, user, "python3", "-c", fmt.Sprintf(prelude, patience.Of(1))+script).want(t, 0, "")
}

func egressCases() []Case {
	needs := []api.Capability{api.CapStart, api.CapEgress}
	return []Case{
		{Name: "egress/resolve", Claimed: true, PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			o := outside.Serve(t, b.Machine)
			b.python(t, "", `
a = socket.gethostbyname("open.example")
check(a.startswith("198.18.") or a.startswith("198.19."), "open.example is", a)
check(socket.gethostbyname("OPEN.example.") == a, "another address for the same name")
check(socket.gethostbyname("dead.example") != a, "one address for two names")
check({i[4][0] for i in socket.getaddrinfo("open.example", 80)} == {a}, "getaddrinfo:", socket.getaddrinfo("open.example", 80))
check(socket.gethostbyname("localhost") == "127.0.0.1", "localhost")
check(socket.gethostbyname(socket.gethostname()) == "127.0.0.1", "the host name")
edns = b"\0" + struct.pack(">HHIH", 41, 4096, 0, 0)
packed = socket.inet_aton(a)
for tcp in False, True:
    code, n, msg = query("open.example", 1, tcp=tcp)
    check((code, n) == (0, 1) and msg.endswith(packed), "A:", tcp, code, n)
    code, n, msg = query("open.example", 1, tcp=tcp, extra=edns)
    check((code, n) == (0, 1) and packed in msg, "A with EDNS:", tcp, code, n)
    for kind in 28, 5, 15, 16, 33, 64, 65, 255:
        check(query("open.example", kind, tcp=tcp)[:2] == (0, 0), "type", kind, tcp)
        check(query("denied.example", kind, tcp=tcp)[:2] == (3, 0), "denied, type", kind, tcp)
    check(query("open.example", 1, tcp=tcp, count=2)[0] == 1, "two questions", tcp)
    for name in "169.254.169.254", "2.0.18.198.in-addr.arpa", "a b.example", "x" * 63 + "." + "y" * 63:
        check(query(name, 1, tcp=tcp)[:2] == (3, 0), "name", name)
check(query("open.example", 1, server="8.8.8.8")[:2] == (0, 1), "another server")
begin = time.monotonic()
fails("a denied name", lambda: socket.getaddrinfo("denied.example", 443), socket.EAI_NONAME, socket.EAI_NODATA)
`)
			b.sh(t, "getent ahostsv4 open.example | head -1 | cut -d. -f1; getent hosts denied.example").want(t, 2, "198\n")
			for _, name := range o.Asked(envd.EgressResolve) {
				if name := strings.TrimSuffix(name, ":0"); name != outside.OpenName && name != outside.DeadName && name != "denied.example" && !strings.HasPrefix(name, "xxx") {
					t.Errorf("the host was asked about %q", name)
				}
			}
		}},
		{Name: "egress/connect-by-name", Claimed: true, PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			o := outside.Serve(t, b.Machine)
			for _, user := range s.users() {
				b.python(t, user, `
check(exchange(("open.example", 7), b"hello") == b"hello", "echo")
a = socket.gethostbyname("open.example")
check(exchange((a, 7), b"again") == b"again", "echo by address")
with socket.create_connection((a, 7)) as s:
    check(s.getpeername() == (a, 7), "peer", s.getpeername())
`)
			}
			o.WantAsked(t, envd.EgressConnect, "open.example:7")
		}},
		{Name: "egress/refused", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			o := outside.Serve(t, b.Machine)
			b.python(t, "", `
refused("a name whose server is dead", ("dead.example", 443))
refused("an address that stands for nothing", ("198.18.99.99", 443))
# A program cannot pretend that its connection was redirected.
for port in 19817,:
    refused("the port itself", ("127.0.0.1", port))
    refused("the port itself, by another address", ("127.1.2.3", port))
fails("the sandbox's own address", lambda: socket.create_connection(("198.18.0.1", 19817)), errno.ECONNREFUSED)
`)
			o.WantAsked(t, envd.EgressConnect, "dead.example:443")
		}},
		{Name: "egress/addresses-go-to-the-host", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			o := outside.Serve(t, b.Machine)
			b.python(t, "", `
for a in ("203.0.113.7", 443), ("169.254.169.254", 80), ("10.0.0.1", 22), ("192.168.1.1", 65535), ("172.17.0.1", 1), ("100.64.0.1", 8080):
    refused("a connection to %s" % a[0], a)
refused("a mapped address", ("::ffff:203.0.113.8", 443), socket.AF_INET6)
s = socket.socket(); s.bind(("127.0.0.1", 0))
fails("a connection from 127.0.0.1", lambda: (s.connect(("203.0.113.9", 443)), s.recv(1)), errno.ECONNRESET, errno.ECONNREFUSED, errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH)
`)
			got := o.Asked(envd.EgressConnect)
			want := []string{"10.0.0.1:22", "100.64.0.1:8080", "169.254.169.254:80", "172.17.0.1:1", "192.168.1.1:65535", "203.0.113.7:443", "203.0.113.8:443"}
			if len(got) == len(want)+1 && got[len(got)-1] == "203.0.113.9:443" {
				got = got[:len(got)-1]
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("the host was asked for %q; want %q", got, want)
			}
		}},
		{Name: "egress/nothing-else-leaves", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			o := outside.Serve(t, b.Machine)
			for _, user := range s.users() {
				b.python(t, user, `
fake = socket.gethostbyname("open.example")
def udp(to, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect(to)
        s.send(b"x")
        return s.recv(1)
for a in "203.0.113.7", "169.254.169.254", "10.0.0.1", fake:
    for port in 443, 123, 1:
        fails("UDP to %s:%d" % (a, port), lambda: udp((a, port)), errno.EPERM, errno.ECONNREFUSED, errno.ENETUNREACH)
for a in ("224.0.0.251", 5353), ("239.255.255.250", 1900), ("255.255.255.255", 67):
    def f():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.settimeout(1)
            s.sendto(b"x", a)
            return s.recv(1)
    fails("a packet to %s" % a[0], f)
for a in "2001:db8::1", "fe80::1%lo", "ff02::fb%lo", "fd00::1":
    info = socket.getaddrinfo(a, 443, socket.AF_INET6)[0][4]
    def v6(kind):
        with socket.socket(socket.AF_INET6, kind) as s:
            s.settimeout(1) # gVisor takes packets to the link and drops them
            s.connect(info)
            s.send(b"x")
            return s.recv(1)
    fails("TCP to " + a, lambda: v6(socket.SOCK_STREAM))
    fails("UDP to " + a, lambda: v6(socket.SOCK_DGRAM))
for kind, proto, family in (socket.SOCK_RAW, socket.IPPROTO_ICMP, socket.AF_INET), (socket.SOCK_RAW, 132, socket.AF_INET), (socket.SOCK_RAW, socket.IPPROTO_RAW, socket.AF_INET), (socket.SOCK_RAW, 0x300, socket.AF_PACKET):
    fails("a raw socket", lambda: socket.socket(family, kind, proto))
def ping(to):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
        s.settimeout(1)
        s.sendto(b"\x08\0\xf7\xff\0\0\0\0", (to, 0))
        return s.recv(64)
for a in "203.0.113.7", fake:
    fails("a ping of " + a, lambda: ping(a))
# The control: what stays inside works.
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
    s.bind(("127.0.0.1", 0)); c.sendto(b"x", s.getsockname()); check(s.recv(1) == b"x", "UDP inside")
for a in "127.0.0.1", "198.18.0.1":
    with socket.create_server((a, 0)) as s, socket.create_connection(s.getsockname()) as c:
        s.accept()[0].sendall(b"x"); check(c.recv(1) == b"x", "TCP inside, to", a)
`)
			}
			o.WantAsked(t, envd.EgressConnect)
		}},
		{Name: "egress/half-close", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			outside.Serve(t, b.Machine)
			b.python(t, "", `
check(exchange(("open.example", 9), b"x" * 100000).startswith(b"100000 "), "the end of what was sent does not arrive")
# The server ends first, and what is sent after that is refused.
with socket.create_connection(("open.example", 19)) as s:
    n = 0
    while True:
        b = s.recv(1 << 20)
        if not b: break
        n += len(b)
    check(n == 50 << 20, "received", n)
`)
		}},
		{Name: "egress/bulk", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			outside.Serve(t, b.Machine)
			b.python(t, "", `
pattern = bytes((i ^ i >> 8) & 255 for i in range(1 << 16))
begin = time.monotonic()
with socket.create_connection(("open.example", 19)) as s:
    got = hashlib.sha256()
    while True:
        b = s.recv(1 << 18)
        if not b: break
        got.update(b)
want = hashlib.sha256(pattern * 800)
check(got.digest() == want.digest(), "what was received differs")
down = time.monotonic()
with socket.create_connection(("open.example", 9)) as s:
    for i in range(800): s.sendall(pattern)
    s.shutdown(socket.SHUT_WR)
    answer = s.recv(100)
up = time.monotonic()
x = 0
for i in range(1 << 16): x = (x * 31 + pattern[i]) & 255
m, one = pow(31, 1 << 16, 256), x
total = 0
for i in range(800): total = (total * m + one) & 255
check(answer == b"%d %d" % (50 << 20, total), "what was sent differs:", answer, total)
print("MB/s down %.0f up %.0f" % (50 / (down - begin), 50 / (up - down)), file=sys.stderr)
`)
		}},
		{Name: "egress/many-at-once", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			outside.Serve(t, b.Machine)
			b.python(t, "", `
bad, barrier = [], threading.Barrier(200)
def one(i):
    try:
        data = b"%d" % i * 1000
        s = socket.create_connection(("open.example", 7))
        barrier.wait(60 * PATIENCE)
        s.sendall(data); s.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            b = s.recv(65536)
            if not b: break
            got += b
        if got != data: bad.append(("differs", i, len(got)))
    except Exception as e: bad.append((i, e))
threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
for x in threads: x.start()
for x in threads: x.join()
check(not bad, len(bad), bad[:3])
`)
			b.sh(t, "echo alive").want(t, 0, "alive\n")
		}},
		{Name: "egress/proxy", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			o := outside.Serve(t, b.Machine)
			b.python(t, "", `
import urllib.request
u = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
got = u.open("http://open.example/x").read()
check(got == b"GET http://open.example/x HTTP/1.1\r\n", got)
`)
			o.WantAsked(t, envd.EgressProxy, ":0")
		}},
		{Name: "egress/pause", PerUser: true, Needs: append(needs, api.CapPause), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			outside.Serve(t, b.Machine)
			const echo = `check(exchange(("open.example", 7), b"hello") == b"hello", "echo")`
			b.python(t, "", echo)
			if err := b.Machine.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.Machine.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.python(t, "", echo)
		}},
		{Name: "egress/no-host", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.python(t, "", `
begin = time.monotonic()
code, n, _ = query("open.example", 1)
took = time.monotonic() - begin
check((code, n) == (2, 0) and took < 5 * PATIENCE, "nobody answers:", code, n, took)
def f():
    with socket.create_connection(("203.0.113.7", 443)) as s: return s.recv(1)
begin = time.monotonic()
try: print("connected:", f())
except OSError as e: check(e.errno == errno.ECONNRESET, e)
took = time.monotonic() - begin
check(took < 30 * PATIENCE, "took", took)
`)
		}},
		{Name: "egress/save-and-restore", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			outside.Serve(t, b.Machine)
			// The programs of a memory image keep the address that they have resolved.
			const start = `cat >/tmp/p.py <<'END'
import os, socket, time
a = socket.gethostbyname("open.example")
c = socket.create_connection((a, 7))
c.sendall(b"x"); c.recv(1)
open("/tmp/ready", "w").write(a)
while not os.path.exists("/tmp/go"): time.sleep(0.01)
try: old = "ended" if c.recv(1) == b"" else "data"
except OSError as e: old = "reset"
s = socket.create_connection((a, 7))
s.sendall(b"hello"); s.shutdown(1)
open("/tmp/out.new", "w").write(old + " " + s.recv(100).decode())
os.rename("/tmp/out.new", "/tmp/out")
END
python3 /tmp/p.py >/tmp/log 2>&1 & while [ ! -e /tmp/ready ]; do sleep 0.01; done`
			b.sh(t, start).want(t, 0, "")
			dir := s.save(t, b, sandbox.SaveOptions{})
			sandboxes := []*Sandbox{b, s.restore(t, dir), s.restore(t, dir)}
			for i, b := range sandboxes {
				if i > 0 {
					outside.Serve(t, b.Machine)
				}
				b.python(t, "", `check(exchange(("open.example", 7), b"hello") == b"hello", "echo")`)
				if _, ok := s.Report.Has(api.CapCheckpoint); !ok && i > 0 {
					continue // no program was restored
				}
				// A stream that was open ends with a save of the memory.
				r := b.sh(t, "touch /tmp/go; for i in $(seq 1000); do [ -e /tmp/out ] && break; sleep 0.02; done; cat /tmp/out /tmp/log")
				if _, ok := s.Report.Has(api.CapCheckpoint); !ok {
					continue // a save of files lets streams be
				}
				r.want(t, 0, "reset hello")
			}
		}},
	}
}
