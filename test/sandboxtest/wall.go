package sandboxtest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/sandboxtest/outside"
)

// listed is what a user reports of a guest that it sees: see Fixture.GuestListed.
var listed = regexp.MustCompile(`(?m)^([0-9]+|listed fds|changed its oom score)\n`)

func startOptions() envd.StartOptions { return envd.StartOptions{} }

func wallCases() []Case {
	needs := func(c ...api.Capability) []api.Capability { return append([]api.Capability{api.CapStart}, c...) }
	return []Case{
		{Name: "wall/user-identity", Claimed: true, PerUser: true, Needs: needs(api.CapUserIdentity, api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.run(t, "user", "sh", "-c", "id -u; id -un; echo $HOME; pwd").want(t, 0, "1000\nuser\n/home/user\n/workspace\n")
			r := b.run(t, "user", "sh", "-c", "grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
			for line := range strings.Lines(r.Stdout) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
				v = strings.TrimSpace(v)
				if k == "NoNewPrivs" && v != "1" || k != "NoNewPrivs" && strings.Trim(v, "0") != "" {
					t.Errorf("%s is %s", k, v)
				}
			}
		}},
		{Name: "wall/root-identity", Claimed: true, PerUser: true, Needs: needs(api.CapRootIdentity, api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.run(t, "root", "id", "-u").want(t, 0, "0\n")
			b.run(t, "root", "sh", "-c", "touch /root/x && chown 1000:1000 /root/x && stat -c %u /root/x").want(t, 0, "1000\n")
		}},
		{Name: "wall/run-dir-tells-which-sandbox", PerUser: true, Needs: needs(api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			for template, want := range map[string]string{"linen": "linen", api.HostTemplate: "base"} {
				b := s.start(t, func(p *sandbox.Spec) { p.Template = template })
				b.run(t, "user", "sh", "-c", "cd /run/e2b && cat .E2B_SANDBOX .E2B_SANDBOX_ID .E2B_TEMPLATE_ID").want(t, 0, "true"+string(b.ID)+want)
				b.run(t, "user", "sh", "-c", "(echo x > /run/e2b/.E2B_SANDBOX_ID) 2>/dev/null").want(t, 2, "")
			}
		}},
		{Name: "wall/files-outside-the-home", PerUser: true, Needs: needs(api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			b.run(t, "user", "sh", "-c", "ln -s /etc/passwd /home/user/trap")
			for path, want := range map[string]int{"/code/app/x": http.StatusOK, "/proc/version": http.StatusForbidden} {
				if got := b.writePlain(t, path); got != want {
					t.Errorf("%s: %d, want %d", path, got, want)
				}
			}
			b.run(t, "user", "sh", "-c", "cat /code/app/x; stat -c %U /code /code/app /code/app/x").want(t, 0, "x"+strings.Repeat("user\n", 3))
			if _, ok := s.Report.Has(api.CapRootIdentity); !ok {
				return // no rights but the user's
			}
			before := b.run(t, "root", "cat", "/etc/passwd").Stdout
			if got := b.writePlain(t, "/home/user/trap"); got != http.StatusForbidden {
				t.Errorf("by a link of the user's: %d", got)
			}
			b.run(t, "root", "cat", "/etc/passwd").want(t, 0, before)
		}},
		{Name: "wall/missing-identity-is-refused", PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			for c, name := range map[api.Capability]string{api.CapUserIdentity: "user", api.CapRootIdentity: "root"} {
				if _, ok := s.Report.Has(c); ok {
					continue
				}
				if _, err := b.try(t, name, startOptions(), "id"); err == nil {
					t.Errorf("a command ran as %s, which the report lacks", name)
				}
			}
			if _, err := b.try(t, "nobody-of-that-name", startOptions(), "id"); err == nil {
				t.Error("a command ran as a user that does not exist")
			}
		}},
		{Name: "wall/guest-out-of-reach", PerUser: true, Needs: needs(api.CapIsolated), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			for _, user := range s.users() {
				r := b.run(t, user, "sh", "-c", `
for s in TERM KILL STOP INT HUP QUIT ABRT SEGV USR1 BUS FPE ILL TRAP PIPE ALRM; do kill -$s 1 2>/dev/null; done
for f in environ mem maps auxv; do (: < /proc/1/$f) 2>/dev/null && echo "opened $f"; done
cat /proc/1/io >/dev/null 2>&1 && echo "read io"
for f in exe root cwd fd/3 fd/4; do readlink /proc/1/$f >/dev/null 2>&1 && echo "followed $f"; done
ls /proc/1/fd/ 2>/dev/null | grep . && echo "listed fds"
(echo x > /proc/1/fd/3) 2>/dev/null && echo "wrote to its stream"
(echo 1000 > /proc/1/oom_score_adj) 2>/dev/null && echo "changed its oom score"
exit 0`)
				if user == s.GuestListed {
					r.Stdout = listed.ReplaceAllString(r.Stdout, "")
				}
				if r.Stdout != "" {
					t.Errorf("%s reached the guest: %q", user, r.Stdout)
				}
				b.run(t, user, "echo", "alive").want(t, 0, "alive\n")
			}
		}},
		{Name: "wall/host-files-are-out-of-sight", PerUser: true, Needs: needs(api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			secret := filepath.Join(dir, "secret")
			if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
				t.Fatal(err)
			}
			b := s.start(t, nil)
			for _, user := range s.users() {
				b.run(t, user, "sh", "-c", fmt.Sprintf("cat %q 2>/dev/null; cat /proc/1/root%s /etc/shadow /proc/*/root%s 2>/dev/null; true", secret, secret, secret)).want(t, 0, "")
			}
		}},
		{Name: "wall/sandboxes-do-not-see-each-other", PerUser: true, Needs: needs(api.CapPrivateFiles), Check: func(t *testing.T, s *Suite) {
			a, b := s.start(t, nil), s.start(t, nil)
			a.sh(t, "echo secret > /tmp/mine; echo secret > /workspace/mine; echo secret > /dev/shm/mine; sleep 1000 >/dev/null 2>&1 &")
			b.sh(t, "ls /tmp /workspace /dev/shm").want(t, 0, "/dev/shm:\n\n/tmp:\n\n/workspace:\n")
			if r := b.sh(t, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(r.Stdout, "sleep 1000") {
				t.Errorf("another sandbox's process is seen: %q", r.Stdout)
			}
		}},
		{Name: "wall/no-network", PerUser: true, Needs: needs(api.CapNoNetwork), Check: func(t *testing.T, s *Suite) {
			// A listener and a socket of the host's on every address are what must stay
			// out of reach; the control is that the host itself reaches them.
			l := newListeners(t)
			l.control(t)
			b := s.start(t, nil)
			if _, ok := s.Report.Has(api.CapEgress); ok {
				outside.Serve(t, b.Machine) // which refuses all of them
			}
			for _, a := range l.addresses {
				b.run(t, "", "python3", "-c", fmt.Sprintf(`
import socket
try:
    s = socket.create_connection((%[1]q, %[2]d), 60); s.recv(1); print("connected")
except OSError as e: print("refused")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.sendto(b"x", (%[1]q, %[3]d))
except OSError as e: pass`, a, l.tcpPort(), l.udpPort())).want(t, 0, "refused\n")
			}
			b.run(t, "", "python3", "-c", `
import socket
def tcp(): socket.create_connection(("192.0.2.1", 80), 60).recv(1)
def udp(family, to):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1); s.connect(to); s.send(b"x"); s.recv(1)
for f in (lambda: socket.getaddrinfo("example.com", 80), tcp, lambda: udp(socket.AF_INET, ("192.0.2.1", 53)),
          lambda: udp(socket.AF_INET, ("192.0.2.1", 443)), lambda: udp(socket.AF_INET6, ("2001:db8::1", 53))):
    try: f(); print("went out")
    except OSError: pass`).want(t, 0, "")
			if !s.Filtered {
				b.sh(t, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").want(t, 0, "lo\n")
			}
			b.run(t, "", "python3", "-c", "import socket\ns=socket.create_server(('127.0.0.1',0)); socket.create_connection(s.getsockname(),2); print('loopback works')").want(t, 0, "loopback works\n")
			if l.reached.Load() != 0 {
				t.Error("the host was reached")
			}
		}},
	}
}

// listeners are sockets on every IPv4 address of the host.
type listeners struct {
	tcp       net.Listener
	udp       net.PacketConn
	addresses []string
	reached   atomic.Int64
	arrived   chan struct{}
}

func newListeners(t *testing.T) *listeners {
	t.Helper()
	l := &listeners{addresses: []string{"127.0.0.1"}, arrived: make(chan struct{}, 16)}
	var err error
	if l.tcp, err = net.Listen("tcp4", "0.0.0.0:0"); err == nil {
		l.udp, err = net.ListenPacket("udp4", "0.0.0.0:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.tcp.Close(); l.udp.Close() })
	arrive := func() {
		l.reached.Add(1)
		select {
		case l.arrived <- struct{}{}:
		default:
		}
	}
	go func() {
		for {
			c, err := l.tcp.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("x"))
			c.Close()
			arrive()
		}
	}()
	go func() {
		for buf := make([]byte, 8); ; arrive() {
			if _, _, err := l.udp.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	ifs, _ := net.InterfaceAddrs()
	for _, a := range ifs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			l.addresses = append(l.addresses, n.IP.String())
		}
	}
	return l
}

func (l *listeners) tcpPort() int { return l.tcp.Addr().(*net.TCPAddr).Port }
func (l *listeners) udpPort() int { return l.udp.LocalAddr().(*net.UDPAddr).Port }

// control reaches both from the host.
func (l *listeners) control(t *testing.T) {
	t.Helper()
	for network, port := range map[string]int{"tcp4": l.tcpPort(), "udp4": l.udpPort()} {
		c, err := net.Dial(network, fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		if err != nil {
			t.Fatalf("control: %v", err)
		}
		c.Close()
		<-l.arrived
	}
	l.reached.Store(0)
}

var start1 = []api.Capability{api.CapStart}

// users lists the identities of the report.
func (s *Suite) users() []string {
	var out []string
	if _, ok := s.Report.Has(api.CapUserIdentity); ok {
		out = append(out, "user")
	}
	if _, ok := s.Report.Has(api.CapRootIdentity); ok {
		out = append(out, "root")
	}
	return out
}
