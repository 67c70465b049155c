package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/server/peer"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// echo is a program that answers HTTP with "hello", and repeats what comes after a request for another protocol.
const echo = `
import socket, threading
def serve(c):
    head = b""
    while b"\r\n\r\n" not in head:
        part = c.recv(4096)
        if not part: return
        head += part
    if b"pgrade: echo" in head:
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        while True:
            part = c.recv(4096)
            if not part: break
            c.sendall(part)
    else:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    c.close()
s = socket.socket()
s.bind(("127.0.0.1", 4321))
s.listen()
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
`

// TestAnyDoor: everything about a sandbox and a task works through a node that does not have it.
func TestAnyDoor(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	all := open(t, 2)
	k := all[0].Key("team", api.RoleUser)
	made := world.Sandbox(t, all[0].As(k), api.CreateSandbox{Isolation: "container"})
	has, other := all.of(t, made.ID())
	c := other.As(k)
	s := world.Must(c.Sandboxes.Get(ctx, string(made.ID())[:8]))(t) // by the beginning of its ID
	name := map[*world.World]string{all[0]: "a", all[1]: "b"}[has]
	for i, w := range all {
		until(t, fmt.Sprintf("node %d says that the sandbox is on %s", i, name), func(ctx context.Context) bool {
			listed := world.Must(w.As(k).Sandboxes.List(ctx, false))(t)
			shown := world.Must(world.Must(w.As(k).Sandboxes.Get(ctx, string(made.ID())))(t).Info(ctx))(t)
			return len(listed) == 1 && listed[0].Node == name && shown.Node == name
		})
	}
	t.Cleanup(func() { s.Close() })

	// Commands and files.
	if out, err := world.Sh(t, s, "echo $((6*7)); cat >/dev/null"); err != nil || out != "42\n" {
		t.Fatalf("%q, %v", out, err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	world.OK(t, s.WriteFile(ctx, "", "big", bytes.NewReader(big)))
	r, _, err := s.ReadFile(ctx, "", "big")
	world.OK(t, err)
	got, err := io.ReadAll(r)
	if r.Close(); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(big), err)
	}
	if execs := world.Must(s.Execs(ctx))(t); len(execs) != 1 || execs[0].State != api.ExecExited {
		t.Errorf("commands: %+v", execs)
	}

	world.Needs(t, s, "python3")
	// Ports: as a stream, at an address of its own, and as another protocol.
	world.OK(t, s.WriteFile(ctx, "", "echo.py", strings.NewReader(echo)))
	server := s.Command(ctx, "python3", "echo.py")
	out, w := io.Pipe()
	server.Stdout = w
	world.OK(t, server.Start())
	go func() { w.CloseWithError(server.Wait()) }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	upgrade := "GET / HTTP/1.1\r\nHost: 4321-" + string(s.ID()) + ".localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
	speak := func(how string, conn net.Conn) {
		t.Helper()
		defer conn.Close()
		io.WriteString(conn, upgrade)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %v, %v", how, resp, err)
		}
		io.WriteString(conn, "twice")
		back := make([]byte, 5)
		if _, err := io.ReadFull(in, back); err != nil || string(back) != "twice" {
			t.Errorf("%s: %q, %v", how, back, err)
		}
	}
	speak("a stream", world.Must(s.Dial(ctx, 4321))(t))
	speak("an upgraded connection", world.Must(net.Dial("tcp", strings.TrimPrefix(other.URL, "http://")))(t))
	if status, body := call(t, "GET", other.URL, "", "Host", "4321-"+string(s.ID())+".localhost"); status != 200 || body != "hello" {
		t.Errorf("the port: %d %q", status, body)
	}

	// Without its token nobody learns whether the sandbox exists, and where: all bytes of the answers are the same.
	forged := map[string]string{}
	for _, id := range []string{string(s.ID()), string(api.NewSandboxID())} {
		conn := world.Must(net.Dial("tcp", strings.TrimPrefix(other.URL, "http://")))(t)
		fmt.Fprintf(conn, "GET /files?path=/tmp/f&username=user&signature=v1_forged HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: %s\r\nConnection: close\r\n\r\n", id)
		text := world.Must(io.ReadAll(conn))(t)
		conn.Close()
		forged[regexp.MustCompile("\r\nDate: [^\r]*").ReplaceAllString(string(text), "")] = id
	}
	for text := range forged {
		if len(forged) != 1 || !strings.HasPrefix(text, "HTTP/1.1 401 ") {
			t.Errorf("a forged signature: %q", text)
		}
	}

	// Another account's is not found, on any node.
	stranger := other.Key("other", api.RoleUser)
	for _, w := range all {
		if _, err := w.As(stranger).Sandboxes.Get(ctx, string(s.ID())); api.KindOf(err) != api.KindNotFound {
			t.Errorf("for another account: %v", err)
		}
	}
	if _, err := s.Kill(ctx); err != nil {
		t.Error(err)
	}
	if row := world.Must(has.DB.Sandbox(ctx, s.ID()))(t); row.State != api.SandboxEnded {
		t.Errorf("it is %s after its end", row.State)
	}

	// A task, its events with a resume in the middle, and its output, each through another node.
	task := world.Must(c.Tasks.Create(ctx, api.CreateTask{Request: "Write a Python script that computes the mean and median of a list of numbers", Sandbox: api.CreateSandbox{Isolation: "container"}}))(t)
	for i, w := range all {
		done, events := world.Follow(t, w.As(k), task.ID)
		if done.Outcome != api.OutcomeVerified || len(events) < 3 {
			t.Fatalf("node %d: %s with %d events", i, done.Outcome, len(events))
		}
		rest := world.All(t, w.As(k).Tasks.Events(ctx, task.ID, events[1].Seq))
		if len(rest) != len(events)-2 {
			t.Errorf("node %d: %d events after the second of %d", i, len(rest), len(events))
		}
		if status, body := call(t, "GET", w.URL+"/v1/tasks/"+string(task.ID)+"/attempts/1/stdout", "", "X-API-Key", k.Secret); status != 200 || body == "" {
			t.Errorf("node %d: the output is %d %q", i, status, body)
		}
	}
}

// TestE2B: a sandbox of E2B's API is reached through any node, with tokens of any node.
func TestE2B(t *testing.T) {
	tier.Soak(t)
	all := open(t, 3)
	k := all[0].Key("team", api.RoleUser)
	for _, made := range all {
		status, body := call(t, "POST", made.URL+"/sandboxes", `{"templateID":"base","timeout":60}`, "X-API-Key", k.Secret)
		if status != 201 {
			t.Fatalf("%d %s", status, body)
		}
		id, token := field(t, body, "sandboxID"), field(t, body, "envdAccessToken")
		for i, w := range all {
			if status, body := call(t, "GET", w.URL+"/sandboxes/"+id, "", "X-API-Key", k.Secret); status != 200 || field(t, body, "envdAccessToken") != token {
				t.Errorf("node %d: %d %s", i, status, body)
			}
			if status, _ := call(t, "POST", w.URL+"/sandboxes/"+id+"/timeout", `{"timeout":90}`, "X-API-Key", k.Secret); status != 204 {
				t.Errorf("node %d: the timeout is %d", i, status)
			}
			file := w.URL + "/files?path=/tmp/f&username=user"
			if status, body := call(t, "GET", w.URL+"/health", "", "E2b-Sandbox-Id", id); status != 204 {
				t.Errorf("node %d: the health is %d %s", i, status, body)
			}
			if status, body := call(t, "GET", file, "", "E2b-Sandbox-Id", id, "X-Access-Token", token[:len(token)-1]+"x"); status != 401 {
				t.Errorf("node %d: with a wrong token: %d %s", i, status, body)
			}
			// A signed address names no sandbox. A URL with the sandbox's token needs no key.
			world.OK(t, world.Must(w.As(k).Sandboxes.Get(t.Context(), id))(t).WriteFile(t.Context(), "", "/tmp/f", strings.NewReader("signed")))
			sum := sha256.Sum256([]byte("/tmp/f:read:user:" + token))
			if status, body := call(t, "GET", file+"&signature=v1_"+url.QueryEscape(base64.RawStdEncoding.EncodeToString(sum[:])), ""); status != 200 || body != "signed" {
				t.Errorf("node %d: the signed address: %d %q", i, status, body)
			}
			if status, body := call(t, "POST", w.URL+"/v1/open/"+id+"/"+token+"/execute", `{"code":"echo open","language":"bash"}`); status != 200 || !strings.Contains(body, "open") {
				t.Errorf("node %d: by its URL: %d %s", i, status, body)
			}
		}
		if status, _ := call(t, "DELETE", all[1].URL+"/sandboxes/"+id, "", "X-API-Key", k.Secret); status != 204 {
			t.Errorf("its end is %d", status)
		}
	}
}

// TestSessions: a session is its node's, and every node answers for it; a browser's address of a private port works once, on any node.
func TestSessions(t *testing.T) {
	tier.Soak(t)
	all := open(t, 2)
	k := all[0].Key("team", api.RoleUser)
	for round := range 4 {
		key := fmt.Sprint("talk", round)
		if status, body := call(t, "POST", all[round%2].URL+"/v1/sessions", `{"key":"`+key+`"}`, "X-API-Key", k.Secret); status != 201 {
			t.Fatalf("%d %s", status, body)
		}
		for i, w := range all {
			for path, want := range map[string]int{"": 200, "/cancel": 200, "/messages": 400} {
				method, text := "POST", ""
				switch path {
				case "":
					method = "GET"
				case "/messages":
					text = `{"text":" "}`
				}
				if status, body := call(t, method, w.URL+"/v1/sessions/"+key+path, text, "X-API-Key", k.Secret); status != want {
					t.Errorf("node %d: %s%s: %d %s", i, key, path, status, body)
				}
			}
			if status, body := call(t, "GET", w.URL+"/v1/sessions", "", "X-API-Key", k.Secret); status != 200 || !strings.Contains(body, key) {
				t.Errorf("node %d: the list is %d %s", i, status, body)
			}
		}
		if status, body := call(t, "DELETE", all[0].URL+"/v1/sessions/"+key, "", "X-API-Key", k.Secret); status != 200 {
			t.Errorf("its end: %d %s", status, body)
		}
	}
	for range 3 {
		s := world.Sandbox(t, all[0].As(k), api.CreateSandbox{Isolation: "container", PrivateTraffic: true})
		_, other := all.of(t, s.ID())
		link := world.Must(world.Must(other.As(k).Sandboxes.Get(t.Context(), string(s.ID())))(t).PortURL(t.Context(), 8080))(t)
		at := world.Must(url.Parse(link.URL))(t)
		for i, want := range []int{303, 403} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", other.URL+at.RequestURI(), nil)
			world.OK(t, err)
			r.Host = at.Host
			r.Header.Set("Accept", "text/html")
			resp, err := http.DefaultTransport.RoundTrip(r)
			world.OK(t, err)
			resp.Body.Close()
			if resp.StatusCode != want && !(want == 303 && resp.StatusCode == 302) {
				t.Errorf("use %d of the link: %s", i+1, resp.Status)
			}
		}
	}
}

// TestDrain: a node that drains gets nothing, keeps what it has, and can be removed when it is empty.
func TestDrain(t *testing.T) {
	tier.Soak(t)
	ctx := t.Context()
	all := open(t, 3)
	a := all[0].Client
	count := map[*world.World]int{}
	for range 12 {
		has, _ := all.of(t, world.Sandbox(t, all[1].Client, api.CreateSandbox{Isolation: "container"}).ID())
		count[has]++
	}
	if len(count) < 2 {
		t.Errorf("all sandboxes are on one node: %v", count)
	}
	_, err := a.RemoveNode(ctx, "b")
	if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "in service") {
		t.Errorf("removed in service: %v", err)
	}
	out := world.Must(a.DrainNode(ctx, "b", admin.DrainNode{}))(t)
	if len(out.Sandboxes) != count[all[1]] || out.Node.State != api.NodeDraining {
		t.Errorf("%+v, %d sandboxes", out, count[all[1]])
	}
	for i := range 6 { // also through doors that do not know it yet
		if has, _ := all.of(t, world.Sandbox(t, all[i%3].Client, api.CreateSandbox{Isolation: "container"}).ID()); has == all[1] {
			t.Error("a draining node got a sandbox")
		}
	}
	out = world.Must(a.DrainNode(ctx, "b", admin.DrainNode{Force: true}))(t)
	if len(out.Sandboxes) != 0 {
		t.Errorf("after force: %+v", out)
	}
	all[1].Stop()
	world.Must(a.RemoveNode(ctx, "b"))(t)
	if f := world.Must(a.FleetNodes(ctx))(t); len(f.Nodes) != 2 {
		t.Errorf("%+v", f)
	}
}

// TestStrangers: nobody but a node is answered at the listener for nodes, nothing that a client says makes it one, and an address in a row is not
// believed.
func TestStrangers(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	all := open(t, 2)
	k := all[0].Key("team", api.RoleUser)
	s := world.Sandbox(t, all[0].As(k), api.CreateSandbox{Isolation: "container"})
	has, other := all.of(t, s.ID())
	row := world.Must(all[0].DB.Sandbox(ctx, s.ID()))(t)
	n := world.Must(all[0].DB.NodeOfOwner(ctx, row.Owner))(t)

	authority := world.Must(all[0].DB.SharedValue(ctx, "fleet authority"))(t)
	foreign := world.Must(peer.NewAuthority(n.BeatAt))(t)
	for name, text := range map[string][]byte{"a foreign authority": foreign, "a node without a row": authority} {
		cfg := world.Must(peer.New(peer.Config{Node: api.NewNodeID(), Authority: func(context.Context) ([]byte, error) { return text, nil }}).Client(ctx, n.ID))(t)
		cfg.VerifyConnection = nil
		if status, err := nodeRequest(n.Address, cfg); err == nil {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, err := nodeRequest(n.Address, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Errorf("no certificate: %d", status)
	}
	// The control: a node with a row.
	node := func(id api.NodeID, to api.NodeID) *tls.Config {
		return world.Must(peer.New(peer.Config{Node: id, Authority: func(context.Context) ([]byte, error) { return authority, nil }}).Client(ctx, to))(t)
	}
	nodes := world.Must(all[0].DB.Nodes(ctx))(t)
	if status, err := nodeRequest(n.Address, node(nodes[0].ID, n.ID)); err != nil || status != 200 {
		t.Errorf("a node: %d, %v", status, err)
	}

	// Headers of nodes have no effect at the doors for clients.
	operator := base64.StdEncoding.EncodeToString([]byte(`{"role":"admin"}`))
	for _, w := range all {
		for _, key := range []string{"", k.Secret} {
			status, body := call(t, "GET", w.URL+"/v1/keys", "", "Hortus-Node-Principal", operator, "Hortus-Node-Door", "v1", "X-API-Key", key)
			if status != 401 && status != 403 {
				t.Errorf("the keys with such headers: %d %s", status, body)
			}
		}
		if status, _ := call(t, "GET", w.URL+"/v1/sandboxes/"+string(s.ID()), "", "Hortus-Node-Door", "v1", "Hortus-Node-Number", "1", "X-API-Key", k.Secret); status != 200 {
			t.Errorf("the sandbox with such headers: %d", status)
		}
	}

	// Who can change rows can point a node's address somewhere else, but who answers there is no node.
	spy := world.Must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: node(api.NewNodeID(), n.ID).Certificates, MinVersion: tls.VersionTLS13}))(t)
	defer spy.Close()
	heard := make(chan string, 8)
	go func() {
		for {
			c, err := spy.Accept()
			if err != nil {
				close(heard)
				return
			}
			b := make([]byte, 1)
			if n, _ := c.Read(b); n > 0 {
				heard <- string(b)
			}
			c.Close()
		}
	}()
	n.Address = spy.Addr().String()
	world.OK(t, has.DB.PutNode(ctx, n))
	world.Eventually(t, "the address is used", func() bool {
		status, body := call(t, "POST", other.URL+"/v1/sandboxes/"+string(s.ID())+"/execs", `{"args":["true"]}`, "X-API-Key", k.Secret)
		return status == http.StatusBadGateway && strings.Contains(body, "does not answer")
	})
	for _, x := range world.Must(other.Client.FleetNodes(ctx))(t).Nodes {
		if x.ID == n.ID && !strings.Contains(x.Unreached, "in the place of node") {
			t.Errorf("the list of nodes says that node %s can be reached: %q", x.Name, x.Unreached)
		}
	}
	spy.Close()
	if h, ok := <-heard; ok {
		t.Errorf("a request was sent to a stranger: %q", h)
	}
}

// nodeRequest sends a request as a node does.
func nodeRequest(address string, cfg *tls.Config) (int, error) {
	c, err := tls.Dial("tcp", address, cfg)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/info HTTP/1.1\r\nHost: x\r\nHortus-Node-Door: v1\r\nHortus-Node-Principal: %s\r\n\r\n", base64.StdEncoding.EncodeToString([]byte(`{"role":"admin"}`)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}
