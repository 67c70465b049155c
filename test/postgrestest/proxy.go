package postgrestest

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, with an address of its own. It can be silent, cut connections, lose a
// message, and lead to another server. It listens on a loopback address.
type Proxy struct {
	listener net.Listener
	joined   sync.WaitGroup

	mu      sync.Mutex
	target  *Server // nil refuses clients
	conns   map[net.Conn]bool
	held    chan struct{} // closed on Release; nil if nothing is held
	rule    *Loss
	texts   map[string]string // of prepared statements, by their names
	waiting int               // pieces that are held
	refused int               // clients without a server
	closed  bool
}

// Loss loses a message, once: the first one of a client that has Text, or runs a prepared statement that has it. With Answer the server gets it and its answer is lost, otherwise the
// server does not get it. The connection ends, and Done is closed, when the message or its answer is lost.
type Loss struct {
	Text   string
	Answer bool
	// Before, if it is set, is called when the message was found, before anything happens to it.
	Before func()
	Done   chan struct{}
}

// Proxy starts a proxy before the server, which ends with the test.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s.ProxyAt(t, l)
}

// ProxyAt is Proxy with a listener.
func (s *Server) ProxyAt(t testing.TB, l net.Listener) *Proxy {
	t.Helper()
	p := &Proxy{listener: l, target: s, conns: map[net.Conn]bool{}, texts: map[string]string{}}
	p.joined.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		l.Close()
		p.Release()
		p.Cut()
		p.joined.Wait()
	})
	return p
}

// URL returns the address of a database.
func (p *Proxy) URL(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(User), Host: p.listener.Addr().String(), Path: "/" + database, RawQuery: "sslmode=disable"}).String()
}

// To leads the next connections to another server; nil refuses them. It cuts those that there are.
func (p *Proxy) To(s *Server) {
	p.mu.Lock()
	p.target = s
	p.mu.Unlock()
	p.Cut()
}

// Hold keeps all bytes, in both directions, until Release.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Release passes on what is held.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// Waiting counts the pieces that are held.
func (p *Proxy) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Refused counts the clients that came while it led to no server.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Lose loses a message.
func (p *Proxy) Lose(l *Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.Done = make(chan struct{})
	p.rule = l
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.joined.Go(func() { p.serve(client) })
	}
}

// add keeps a connection for Cut. It closes one that comes too late.
func (p *Proxy) add(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
	}
	p.conns[c] = true
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	p.add(client)
	defer p.remove(client)
	p.mu.Lock()
	target := p.target
	if target == nil {
		p.refused++
	}
	p.mu.Unlock()
	if target == nil {
		return
	}
	server, err := net.Dial("unix", filepath.Join(target.Dir, ".s.PGSQL.5432"))
	if err != nil {
		return
	}
	p.add(server)
	defer p.remove(server)
	var loseAnswer chan struct{} // of both directions
	var mu sync.Mutex
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		p.pass(server, func(b []byte) error {
			mu.Lock()
			lost := loseAnswer
			mu.Unlock()
			if lost != nil {
				server.Close()
				client.Close()
				close(lost)
				return errLost
			}
			_, err := client.Write(b)
			return err
		})
	})
	p.pass(client, func(b []byte) error {
		if l := p.loses(b); l != nil {
			if l.Before != nil {
				l.Before()
			}
			if !l.Answer {
				server.Close()
				client.Close()
				close(l.Done)
				return errLost
			}
			mu.Lock()
			loseAnswer = l.Done
			mu.Unlock()
		}
		_, err := server.Write(b)
		return err
	})
	server.Close()
	back.Wait()
}

// preparedName is the name of a prepared statement, which pgx makes of its text.
var preparedName = regexp.MustCompile(`stmtcache_[0-9a-f]+`)

var errLost = errors.New("lost")

// loses returns the loss that a message is, once.
func (p *Proxy) loses(b []byte) *Loss {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := string(b)
	if name := preparedName.FindString(text); name != "" {
		if text[0] == 'P' { // the statement is prepared, and runs when the server has answered
			p.texts[name] = text
			return nil
		}
		text += p.texts[name]
	}
	if p.rule == nil || !strings.Contains(text, p.rule.Text) {
		return nil
	}
	l := p.rule
	p.rule = nil
	return l
}

// pass passes on what a connection sends.
func (p *Proxy) pass(from net.Conn, to func([]byte) error) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		held := p.held
		if held != nil && n > 0 {
			p.waiting++
		}
		p.mu.Unlock()
		if held != nil && n > 0 {
			<-held
			p.mu.Lock()
			p.waiting--
			p.mu.Unlock()
		}
		if n > 0 && to(b[:n]) != nil || err != nil {
			return
		}
	}
}
