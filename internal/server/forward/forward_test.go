package forward_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/peer"
)

// node is a node of a test: a door for clients, and the listener for other nodes.
type node struct {
	forward.Node
	t      *testing.T
	fleet  *fleet
	f      *forward.Forwarder
	client *httptest.Server
	peers  *httptest.Server
	// handle serves what is here.
	handle   func(w http.ResponseWriter, r *http.Request)
	served   atomic.Int32
	identity *peer.Identity
	// as is the principal of clients.
	as api.Principal
	// stored is About.Stored of what clients ask for, kind its Kind if that is no sandbox.
	stored   bool
	kind     forward.Kind
	draining bool
	// told, unless it is nil, hears for what requests of clients wait.
	told func(api.WaitingEvent)
}

// fleet is the rows: where things are, by what each node believes.
type fleet struct {
	mu    sync.Mutex
	nodes []*node
	at    map[string]api.NodeID
	// stale has a node believe something else until it looks again.
	stale  map[api.NodeID]map[string]api.NodeID
	silent map[api.NodeID]bool
	was    map[api.NodeID]bool // silent, before a node looks again
	ended  map[string]bool
	// moving counts the looks for which something is moving.
	moving map[string]int
	// away counts the looks of its last node for which nobody has something.
	away map[string]int
	// heirs are who has something after so many looks.
	heirs map[string]*heirAfter
	order []api.NodeID
	// room reports whether another node seems to have capacity; nil for never.
	room func() bool
}

type heirAfter struct {
	looks int
	node  api.NodeID
}

func (fl *fleet) by(id api.NodeID) *node {
	for _, n := range fl.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

type directory struct {
	fl   *fleet
	self api.NodeID
}

func (d directory) Locate(_ context.Context, _ forward.Kind, id string, fresh bool) (forward.Location, error) {
	d.fl.mu.Lock()
	defer d.fl.mu.Unlock()
	if d.fl.moving[id] > 0 {
		d.fl.moving[id]--
		return forward.Location{Here: true, Moving: true, Account: "a"}, nil
	}
	if h := d.fl.heirs[id]; h != nil {
		if h.looks--; h.looks == 0 {
			d.fl.at[id] = h.node
		}
	}
	at, ok := d.fl.at[id]
	if at == d.self && d.fl.away[id] > 0 {
		d.fl.away[id]--
		return forward.Location{Here: true, Away: true, Account: "a"}, nil
	}
	if s, has := d.fl.stale[d.self][id]; has && !fresh {
		at = s
	}
	if !ok || at == d.self {
		return forward.Location{Here: true}, nil
	}
	return forward.Location{Node: d.fl.by(at).Node, Silent: d.fl.silent[at] || d.fl.was[at] && !fresh, Ended: d.fl.ended[id], Account: "a"}, nil
}

// open opens a fleet of so many nodes.
func open(t *testing.T, n int) *fleet {
	t.Helper()
	authority, err := peer.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	fl := &fleet{at: map[string]api.NodeID{}, stale: map[api.NodeID]map[string]api.NodeID{}, silent: map[api.NodeID]bool{}, ended: map[string]bool{}}
	for i := range n {
		id := api.NewNodeID()
		identity := peer.New(peer.Config{
			Node: id, Authority: func(context.Context) ([]byte, error) { return authority, nil },
			Known: func(_ context.Context, id api.NodeID) error {
				if fl.by(id) == nil {
					return errors.New("unknown")
				}
				return nil
			},
		})
		nd := &node{identity: identity, Node: forward.Node{ID: id, Name: fmt.Sprintf("node-%d", i)}, t: t, fleet: fl, as: api.Principal{Account: "a", Role: api.RoleUser, Key: "k1", ExpiresAt: time.Now().Add(time.Hour)}}
		nd.f = forward.New(forward.Config{
			Self: id, Directory: directory{fl, id}, TLS: identity.Client, Draining: func() bool { return nd.draining },
			Choose: func(context.Context, forward.Need) (out []forward.Node, err error) {
				for _, id := range fl.order {
					out = append(out, fl.by(id).Node)
				}
				return out, nil
			},
			Room: func(context.Context, forward.Need) bool { return fl.room != nil && fl.room() },
		})
		t.Cleanup(nd.f.Close)
		nd.client = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			ctx := api.WithPrincipal(r.Context(), nd.as)
			if nd.told != nil {
				ctx = api.WithWaitTold(ctx, nd.told)
			}
			nd.door(w, r.WithContext(ctx))
		}))
		t.Cleanup(nd.client.Close)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		nd.peers = &httptest.Server{Listener: tls.NewListener(ln, identity.Server()), Config: &http.Server{Handler: forward.Receiver{
			Now: time.Now,
			From: func(r *http.Request) (api.NodeID, error) {
				id, ok := peer.NodeOf(r.TLS)
				if !ok {
					return "", errors.New("no node")
				}
				return id, nil
			},
			Doors: map[forward.Door]http.Handler{forward.DoorV1: http.HandlerFunc(nd.door)},
		}}}
		nd.peers.Start()
		t.Cleanup(nd.peers.Close)
		nd.Address = ln.Addr().String()
		nd.handle = func(w http.ResponseWriter, r *http.Request) {
			p := api.PrincipalOf(r.Context())
			fmt.Fprintf(w, "%s: %s %s of %s for %s %s until %t", nd.Name, r.Method, r.URL, r.Host, p.Account, p.Role, !p.ExpiresAt.IsZero())
		}
		fl.nodes = append(fl.nodes, nd)
	}
	return fl
}

// door is the server of a node: what is about /things/ID goes to its node, what is below /new is placed.
func (n *node) door(w http.ResponseWriter, r *http.Request) {
	fail := func(err error) {
		w.WriteHeader(api.AsError(err).HTTPStatus())
		io.WriteString(w, err.Error())
	}
	here := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.served.Add(1); n.handle(w, r) })
	if strings.HasPrefix(r.URL.Path, "/new") {
		kind := forward.Kind(strings.TrimPrefix(r.URL.Path, "/new/"))
		if err := n.f.Place(w, r, forward.DoorV1, func([]byte) forward.Need { return forward.Need{Kind: kind} }, here); err != nil {
			fail(err)
		}
		return
	}
	done, err := n.f.Pass(w, r, forward.About{Door: forward.DoorV1, Kind: cmp.Or(n.kind, forward.Sandbox), ID: strings.TrimPrefix(r.URL.Path, "/things/"), Stored: n.stored})
	switch {
	case err != nil:
		fail(err)
	case !done:
		here(w, r)
	}
}

// get asks a node as a client does.
func (n *node) get(method, path, body string, header ...string) (status int, answer string, h http.Header) {
	n.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.client.URL+path, in)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Host = "3000-x.example"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// TestPass: a request reaches the node that has the thing, once, for the client's principal.
func TestPass(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	want := "node-1: GET /things/x?q=%2F&q=; of 3000-x.example for a user until true"
	status, answer, h := a.get("GET", "/things/x?q=%2F&q=;", "")
	if status != 200 || answer != want || len(h.Values("X-Content-Type-Options")) != 1 {
		t.Errorf("%d %q %v", status, answer, h)
	}
	if _, answer, _ := b.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-1: GET /things/x ") {
		t.Errorf("on its own node: %q", answer)
	}
	if _, answer, _ := a.get("GET", "/things/other", ""); !strings.HasPrefix(answer, "node-0") {
		t.Errorf("what is nowhere: %q", answer)
	}
	// What is another account's is not looked for on its node.
	a.as.Account = "b"
	if _, answer, _ := a.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-0") {
		t.Errorf("for another account: %q", answer)
	}
}

// TestHeadersOfClients: headers between nodes have no effect if a client sends them, and do not reach what serves a request.
func TestHeadersOfClients(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	var seen http.Header
	b.handle = func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		fmt.Fprint(w, api.PrincipalOf(r.Context()).Role, " ", r.RemoteAddr != "6.6.6.6:1")
	}
	admin := base64.StdEncoding.EncodeToString([]byte(`{"role":"admin"}`))
	status, answer, _ := a.get("GET", "/things/x", "", "Hortus-Node-Principal", admin, "Hortus-Node-Door", "v1", "Hortus-Node-Number", "7", "Hortus-Node-Try", "1",
		"Hortus-Node-Client", "6.6.6.6:1", "X-Api-Key", "secret", "X-Forwarded-Proto", "https")
	if status != 200 || answer != "user true" {
		t.Errorf("%d %q", status, answer)
	}
	for name := range seen {
		if strings.HasPrefix(name, "Hortus-Node-") || name == "X-Api-Key" {
			t.Errorf("%s reached the server", name)
		}
	}
	if seen.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("%v", seen)
	}
	// A client that reaches the listener for nodes without a certificate gets nothing, whatever its headers are.
	raw := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+b.Address+"/things/x", nil)
	r.Header.Set("Hortus-Node-Principal", admin)
	r.Header.Set("Hortus-Node-Door", "v1")
	if resp, err := raw.Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("a client without a certificate: %s", resp.Status)
	}
	// What serves a request cannot pretend to be a node: its number is secret.
	calls := b.served.Load()
	b.handle = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Hortus-Node-Moved", "1")
		w.Header().Set("Hortus-Node-Full", "")
		w.WriteHeader(404)
	}
	if status, _, h := a.get("GET", "/things/x", ""); status != 404 || h.Get("Hortus-Node-Moved") != "" || b.served.Load() != calls+1 {
		t.Errorf("%d %v, %d calls", status, h, b.served.Load()-calls)
	}
}

// TestReceiver refuses what no node sends. The first case is the control.
func TestReceiver(t *testing.T) {
	from := func(*http.Request) (api.NodeID, error) { return api.NewNodeID(), nil }
	text := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, tt := range map[string]struct {
		from      func(*http.Request) (api.NodeID, error)
		door, who string
		status    int
	}{
		"a node":            {from, "v1", text(`{"role":"user","account":"a"}`), 200},
		"nobody":            {from, "v1", "", 200},
		"a stranger":        {func(*http.Request) (api.NodeID, error) { return "", errors.New("no") }, "v1", text(`{"role":"user"}`), 403},
		"another door":      {from, "metrics", text(`{"role":"user"}`), 400},
		"no door":           {from, "", text(`{"role":"user"}`), 400},
		"no base64":         {from, "v1", "{}", 400},
		"no JSON":           {from, "v1", text("x"), 400},
		"no role":           {from, "v1", text(`{"account":"a"}`), 400},
		"an unknown role":   {from, "v1", text(`{"role":"root"}`), 400},
		"an end in a key":   {from, "v1", text(`{"role":"user","expiresAt":"x"}`), 400},
		"an end that is up": {from, "v1", text(`{"role":"user","expiresAt":"2020-01-01T00:00:00Z"}`), 499},
	} {
		h := forward.Receiver{Now: time.Now, From: tt.from, Doors: map[forward.Door]http.Handler{forward.DoorV1: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !forward.Arrived(r.Context()) {
				t.Error("it did not arrive")
			}
			if r.Context().Err() != nil {
				w.WriteHeader(499)
			}
		})}}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Hortus-Node-Door", tt.door)
		r.Header.Set("Hortus-Node-Principal", tt.who)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.status {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.status)
		}
	}
}

// FuzzReceiver: headers of any bytes lead to a door or to 400.
func FuzzReceiver(f *testing.F) {
	f.Add("v1", base64.StdEncoding.EncodeToString([]byte(`{"role":"user","account":"a","expiresAt":"2040-01-01T00:00:00Z","ceilings":{"sandboxes":1}}`)), "https", "1.2.3.4:5")
	f.Fuzz(func(t *testing.T, door, who, scheme, client string) {
		h := forward.Receiver{Now: time.Now, From: func(*http.Request) (api.NodeID, error) { return "n", nil }, Doors: map[forward.Door]http.Handler{forward.DoorV1: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if p := api.PrincipalOf(r.Context()); who == "" != (p.Role == "") {
				t.Errorf("%q is %+v", who, p)
			}
		})}}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Hortus-Node-Door", door)
		r.Header.Set("Hortus-Node-Principal", who)
		r.Header.Set("Hortus-Node-Scheme", scheme)
		r.Header.Set("Hortus-Node-Client", client)
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
}

// TestStreams: events come as they are sent, a client that leaves ends the request, and bodies pass whole in both directions at once.
func TestStreams(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	next, left := make(chan string), make(chan struct{})
	b.handle = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case line := <-next:
				io.WriteString(w, line+"\n")
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				close(left)
				return
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", a.client.URL+"/things/x", nil)
	go func() { next <- "one" }()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"one", "two", "three"} {
		if want != "one" {
			next <- want
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q instead of %q", lines.Text(), want)
		}
	}
	cancel()
	<-left
	resp.Body.Close()

	// Each part of the body is answered before the next one is sent.
	b.handle = func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		buf := make([]byte, 1<<20)
		for {
			n, err := r.Body.Read(buf)
			w.Write(buf[:n])
			rc.Flush()
			if err != nil {
				return
			}
		}
	}
	in, out := io.Pipe()
	r, _ = http.NewRequestWithContext(t.Context(), "POST", a.client.URL+"/things/x", in)
	got := make(chan *http.Response)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
		}
		got <- resp
	}()
	part := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	out.Write(part)
	if resp = <-got; resp == nil {
		t.FailNow()
	}
	defer resp.Body.Close()
	back := make([]byte, len(part))
	for i := range 40 {
		if _, err := io.ReadFull(resp.Body, back); err != nil || !bytes.Equal(back, part) {
			t.Fatalf("part %d: %v", i, err)
		}
		if i < 39 {
			out.Write(part)
		}
	}
	out.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%d bytes more, %v", len(rest), err)
	}
}

// TestCut: an answer that a node does not finish is cut for the client, visibly.
func TestCut(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	b.handle = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	resp, err := http.Get(a.client.URL + "/things/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(text) != "half" {
		t.Errorf("%q, %v", text, err)
	}
	// Before the first byte it is an error that says that nothing is known.
	b.handle = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if status, answer, _ := a.get("POST", "/things/x", "body"); status != 502 || !strings.Contains(answer, "before it answered") {
		t.Errorf("%d %q", status, answer)
	}
}

// TestUpgrade: a connection that becomes another protocol's is passed on, with what was sent early, and each half ends by itself.
func TestUpgrade(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	b.handle = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			w.WriteHeader(400)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		all, err := io.ReadAll(rw.Reader) // until the client has ended its half
		fmt.Fprintf(conn, "%d bytes, %v", len(all), err)
	}
	c, err := net.Dial("tcp", a.client.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /things/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" {
		t.Fatal(resp, err)
	}
	c.Write(bytes.Repeat([]byte("x"), 1<<20))
	c.(*net.TCPConn).CloseWrite()
	if text, err := io.ReadAll(br); string(text) != fmt.Sprint(1<<20+5, " bytes, <nil>") || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if status, _, _ := a.get("GET", "/things/x", "", "Connection", "Upgrade", "Upgrade", "other"); status != 400 {
		t.Errorf("a refused upgrade: %d", status)
	}
}

// TestMoved: nodes with old ideas of where a thing is do not send a request in circles.
func TestMoved(t *testing.T) {
	fl := open(t, 3)
	a, b, c := fl.nodes[0], fl.nodes[1], fl.nodes[2]
	fl.at["x"] = c.ID
	fl.stale[a.ID] = map[string]api.NodeID{"x": b.ID}
	if status, answer, h := a.get("GET", "/things/x", ""); status != 200 || !strings.HasPrefix(answer, "node-2") || len(h.Values("Hortus-Node-Moved")) > 0 {
		t.Errorf("after another look: %d %q %v", status, answer, h)
	}
	// What has a body is not sent twice.
	if status, answer, _ := a.get("POST", "/things/x", "body"); status != 502 || !strings.Contains(answer, "changed") {
		t.Errorf("%d %q", status, answer)
	}
	// Each of two nodes believes that the other has it, whenever it looks.
	fl.at["y"] = c.ID
	for _, n := range []*node{a, b} {
		other := map[*node]*node{a: b, b: a}[n]
		n.f = forward.New(forward.Config{Self: n.ID, Directory: believes{other.Node}, TLS: n.identity.Client})
	}
	status, answer, _ := a.get("GET", "/things/y", "")
	if status != 502 || !strings.Contains(answer, "changed") || b.served.Load() != 0 {
		t.Errorf("in a circle: %d %q", status, answer)
	}
}

// believes is a directory in which everything is on one node.
type believes struct{ forward.Node }

func (b believes) Locate(context.Context, forward.Kind, string, bool) (forward.Location, error) {
	return forward.Location{Node: b.Node, Account: "a"}, nil
}

// TestDeadNode: what is on a node that does not answer is unavailable, unless the rows have the answer.
func TestDeadNode(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	fl.was = map[api.NodeID]bool{b.ID: true}
	if status, answer, _ := a.get("POST", "/things/x", "body"); status != 200 || !strings.HasPrefix(answer, "node-1") {
		t.Errorf("a node that is back: %d %q", status, answer)
	}
	fl.was = nil
	for _, how := range []string{"silent", "closed"} {
		if fl.silent[b.ID] = how == "silent"; how == "closed" {
			b.peers.Close()
			a.f.Close() // or a request may be on its way over a connection that ends
		}
		status, answer, _ := a.get("POST", "/things/x", "body")
		if status != 502 || !strings.Contains(answer, "on node node-1, which does not answer") {
			t.Errorf("%s: %d %q", how, status, answer)
		}
		a.stored = true
		if _, answer, _ := a.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-0") {
			t.Errorf("%s: from the rows: %q", how, answer)
		}
		a.stored = false
		fl.ended["x"] = true
		if _, answer, _ := a.get("POST", "/things/x", "body"); !strings.HasPrefix(answer, "node-0") {
			t.Errorf("%s: what has ended: %q", how, answer)
		}
		fl.ended["x"] = false
	}
}

// TestNoAuthority: before nodes can trust each other, the node that was asked says so, and not that the other one does not answer.
func TestNoAuthority(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	f := forward.New(forward.Config{Self: a.ID, Directory: directory{fl, a.ID}, TLS: peer.New(peer.Config{Node: a.ID, Authority: func(context.Context) ([]byte, error) {
		return nil, api.Errorf(api.KindUnavailable, "the fleet has no certificate authority").WithHint("create it once: hortus fleet init")
	}}).Client})
	defer f.Close()
	for kind, text := range map[forward.Kind]string{
		forward.Sandbox: "sandbox x is on node node-1, which the node that was asked cannot reach: the fleet has no certificate authority",
		forward.Machine: "node node-1 cannot be reached from the node that was asked: the fleet has no certificate authority",
	} {
		done, err := f.Pass(httptest.NewRecorder(), httptest.NewRequest("GET", "/things/x", nil), forward.About{Door: forward.DoorV1, Kind: kind, ID: "x"})
		if done || api.KindOf(err) != api.KindUnavailable || err.Error() != text || api.HintOf(err) != "create it once: hortus fleet init" || api.AsError(err).RetryAfterMS == 0 {
			t.Errorf("%s: %v, %v, %q", kind, done, err, api.HintOf(err))
		}
	}
}

// TestHeir: a request for what another node continues waits until that has it, with its body; one for a sandbox does not.
func TestHeir(t *testing.T) {
	fl := open(t, 3)
	a, b, c := fl.nodes[0], fl.nodes[1], fl.nodes[2]
	for _, how := range []string{"silent", "closed"} {
		if fl.silent[b.ID] = how == "silent"; how == "closed" {
			b.peers.Close()
			a.f.Close() // or a request may be on its way over a connection that ends
		}
		for _, heir := range []*heirAfter{{5, a.ID}, {5, c.ID}} {
			fl.at["x"], fl.heirs = b.ID, map[string]*heirAfter{"x": heir}
			a.kind = forward.Task
			var sent string
			fl.by(heir.node).handle = func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent = string(body)
			}
			if status, answer, _ := a.get("POST", "/things/x", "body"); status != 200 || sent != "body" {
				t.Errorf("%s: %d %q, with the body %q", how, status, answer, sent)
			}
			fl.at["x"], fl.heirs["x"].looks, a.kind = b.ID, 5, forward.Sandbox
			if status, answer, _ := a.get("POST", "/things/x", "body"); status != 502 || !strings.Contains(answer, "on node node-1, which does not answer") {
				t.Errorf("%s: a sandbox: %d %q", how, status, answer)
			}
		}
	}
}

// TestAnotherAddress: who answers at an address that the rows have is not believed unless it is that node.
func TestAnotherAddress(t *testing.T) {
	fl := open(t, 3)
	a, b, c := fl.nodes[0], fl.nodes[1], fl.nodes[2]
	fl.at["x"] = b.ID
	b.Node.Address = c.Address
	if status, answer, _ := a.get("GET", "/things/x", ""); status != 502 || !strings.Contains(answer, "does not answer") || c.served.Load() != 0 {
		t.Errorf("%d %q", status, answer)
	}
}

// TestBodyThatNobodyRead: the connection of a client goes on after a request whose body could not be passed on.
func TestBodyThatNobodyRead(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	b.peers.Close()
	conn, err := net.Dial("tcp", a.client.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for range 3 {
		fmt.Fprint(conn, "POST /things/x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("the connection ended: %v", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 502 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
}

// TestMoving: a request for something that is moving waits until it has arrived. Records, other accounts and other nodes do not wait.
func TestMoving(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	fl.moving = map[string]int{"x": 3}
	if _, answer, _ := a.get("POST", "/things/x", "body"); !strings.HasPrefix(answer, "node-1: POST") || fl.moving["x"] != 0 {
		t.Errorf("%q, %v", answer, fl.moving)
	}
	for what, set := range map[string]func(){
		"a record":        func() { a.stored = true },
		"another account": func() { a.as.Account = "other" },
	} {
		fl.moving["x"], a.stored, a.as.Account = 1000, false, "a"
		set()
		if _, answer, _ := a.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-0") || fl.moving["x"] != 999 {
			t.Errorf("%s: %q, %v", what, answer, fl.moving)
		}
	}
	fl.moving["x"] = 1000
	if err := a.f.Ask(t.Context(), b.Node, "POST", "/things/x"); err != nil || fl.moving["x"] != 999 {
		t.Errorf("a node waits for itself: %v, %v", err, fl.moving)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(api.WithPrincipal(ctx, api.Principal{Role: api.RoleAdmin}), "GET", "/things/x", nil)
	if _, err := a.f.Pass(httptest.NewRecorder(), r, forward.About{Kind: forward.Sandbox, ID: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has gone waits: %v", err)
	}
}

// TestAway: a request for something that nobody has waits at the node that it reaches, and is not served by the node that had it. Records are.
func TestAway(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"], fl.away = b.ID, map[string]int{"x": 3}
	if _, answer, _ := b.get("POST", "/things/x", "body"); !strings.HasPrefix(answer, "node-1: POST") || fl.away["x"] != 0 {
		t.Errorf("at its last node: %q, %v", answer, fl.away)
	}
	fl.away["x"] = 1
	if _, answer, _ := a.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-1: GET") || fl.away["x"] != 0 {
		t.Errorf("the node that it reached does not look again: %q, %v", answer, fl.away)
	}
	fl.away["x"] = 1
	if status, answer, _ := a.get("POST", "/things/x", "body"); status == http.StatusOK || !strings.Contains(answer, "changed while the request was on its way") {
		t.Errorf("with a body that is gone: %d, %q", status, answer)
	}
	fl.away["x"], b.stored = 1000, true
	if _, answer, _ := b.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-1") || fl.away["x"] != 999 {
		t.Errorf("a record: %q, %v", answer, fl.away)
	}
	if _, answer, _ := a.get("GET", "/things/x", ""); !strings.HasPrefix(answer, "node-1") || fl.away["x"] != 998 {
		t.Errorf("a record at another node: %q, %v", answer, fl.away)
	}
}

// TestAsk: a node asks another one as the operator, and learns the error.
func TestAsk(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at["x"] = b.ID
	var as api.Principal
	b.handle = func(_ http.ResponseWriter, r *http.Request) { as = api.PrincipalOf(r.Context()) }
	if err := a.f.Ask(t.Context(), b.Node, "POST", "/things/x"); err != nil || as.Role != api.RoleAdmin || as.Account != "" {
		t.Errorf("%v as %+v", err, as)
	}
	b.handle = func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(409)
		json.NewEncoder(w).Encode(api.ProblemOf(api.Errorf(api.KindConflict, "it is incompatible").WithHint("do this"), 0))
	}
	if err := a.f.Ask(t.Context(), b.Node, "POST", "/things/x"); api.KindOf(err) != api.KindConflict || err.Error() != "it is incompatible" || api.HintOf(err) != "do this" {
		t.Error(err)
	}
	b.handle = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) }
	if err := a.f.Ask(t.Context(), b.Node, "POST", "/things/x"); api.KindOf(err) != api.KindInternal || !strings.Contains(err.Error(), "node-1 answered 502") {
		t.Error(err)
	}
	fl.at["x"] = a.ID
	if err := a.f.Ask(t.Context(), b.Node, "POST", "/things/x"); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("it moved: %v", err)
	}
	b.peers.Close()
	if err := a.f.Ask(t.Context(), b.Node, "POST", "/things/x"); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "node-1 does not answer") {
		t.Error(err)
	}
}

// TestGet: a node reads an answer of another one for a caller, and sorts what the caller asks for by the nodes that have it.
func TestGet(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.at = map[string]api.NodeID{"here": a.ID, "there": b.ID, "too": b.ID}
	ctx := api.WithPrincipal(t.Context(), a.as)
	here, there, err := a.f.Sort(ctx, forward.Sandbox, []string{"here", "there", "none", "too"})
	if err != nil || strings.Join(here, " ") != "here none" || strings.Join(there[b.Node], " ") != "there too" || len(there) != 1 {
		t.Errorf("%v, %v, %v", here, there, err)
	}
	stranger := api.WithPrincipal(t.Context(), api.Principal{Account: "x", Role: api.RoleUser})
	if here, there, err := a.f.Sort(stranger, forward.Sandbox, []string{"there"}); err != nil || len(here) != 1 || len(there) != 0 {
		t.Errorf("another account's: %v, %v, %v", here, there, err)
	}
	fl.silent[b.ID] = true
	if here, there, err := a.f.Sort(ctx, forward.Sandbox, []string{"there"}); err != nil || len(here)+len(there) != 0 {
		t.Errorf("of a silent node: %v, %v, %v", here, there, err)
	}
	if text, err := a.f.Get(ctx, b.Node, forward.DoorV1, "/things/there", 1<<10); err != nil || !strings.HasPrefix(string(text), "node-1: GET /things/there of") || !strings.Contains(string(text), "for a user") {
		t.Errorf("%q, %v", text, err)
	}
}
