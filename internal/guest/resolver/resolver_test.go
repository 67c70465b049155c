package resolver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

// host answers questions on streams.
type host struct {
	mu      sync.Mutex
	asked   []string
	opened  int
	streams []net.Conn
	answer  func(name string) envd.EgressAnswer // nil for no answer
}

// open is a Config.Open.
func (h *host) open(ctx context.Context) (Stream, error) {
	if h.answer == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	h.mu.Lock()
	h.opened++
	h.streams = append(h.streams, theirs)
	h.mu.Unlock()
	go func() {
		defer theirs.Close()
		br := bufio.NewReader(theirs)
		for {
			line, err := br.ReadBytes('\n')
			var q envd.EgressRequest
			if err != nil || json.Unmarshal(line, &q) != nil {
				return
			}
			h.mu.Lock()
			h.asked = append(h.asked, q.Op+" "+q.Name)
			h.mu.Unlock()
			out, _ := json.Marshal(h.answer(q.Name))
			theirs.Write(append(out, '\n'))
		}
	}()
	return ours, nil
}

// allow allows the names below example.org.
func allow(name string) (a envd.EgressAnswer) {
	switch {
	case strings.HasSuffix(name, ".example.org"):
		a.OK = true
	case name == "busy.test":
		a.Error = envd.EgressErrBusy
	default:
		a.Error = envd.EgressErrDenied
	}
	return a
}

// message makes a query.
func message(name string, kind uint16, opt bool) []byte {
	b := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, kind)
	b = binary.BigEndian.AppendUint16(b, classIN)
	if opt {
		b[11] = 1
		b = append(b, 0, 0, typeOPT, 0x10, 0, 0, 0, 0, 0, 0, 0)
	}
	return b
}

// ask sends a query to a resolver and returns the code and the address of the answer.
func ask(t *testing.T, r *Resolver, msg []byte) (code int, address string) {
	t.Helper()
	q, answer, ok := r.begin(msg)
	if !ok {
		return -1, ""
	}
	if answer == nil {
		answer = r.finish(t.Context(), q)
	}
	if !bytes.Equal(answer[:2], msg[:2]) || answer[2]&0x80 == 0 {
		t.Fatalf("the answer %x to %x", answer, msg)
	}
	if binary.BigEndian.Uint16(answer[6:]) == 1 {
		data := answer[headerSize+len(q.section):]
		size := binary.BigEndian.Uint16(data[10:])
		a, _ := netip.AddrFromSlice(data[12 : 12+size])
		address = a.String()
	}
	return int(answer[3] & 15), address
}

func TestResolve(t *testing.T) {
	h := &host{answer: allow}
	r := New(Config{Open: h.open, Names: NewNames(), Hostname: "Garden"})
	for _, c := range []struct {
		name    string
		kind    uint16
		code    int
		address string
	}{
		{"a.example.org", typeA, codeOK, "198.18.1.0"},
		{"b.example.org", typeA, codeOK, "198.18.1.1"},
		{"A.Example.ORG", typeA, codeOK, "198.18.1.0"},
		{"a.example.org", typeAAAA, codeOK, ""},
		{"a.example.org", 65, codeOK, ""},
		{"a.example.org", 16, codeOK, ""},
		{"denied.test", typeA, codeNoName, ""},
		{"denied.test", typeAAAA, codeNoName, ""},
		{"busy.test", typeA, codeServerFailure, ""},
		{"localhost", typeA, codeOK, "127.0.0.1"},
		{"localhost", typeAAAA, codeOK, "::1"},
		{"x.localhost", typeA, codeOK, "127.0.0.1"},
		{"localhost", 16, codeOK, ""},
		{"garden", typeA, codeOK, "127.0.0.1"},
		{"garden", typeAAAA, codeOK, ""},
		{"", 2, codeNoName, ""},
		{"127.0.0.1", typeA, codeNoName, ""},
		{"a.1", typeA, codeNoName, ""},
		{"1.0.18.198.in-addr.arpa", 12, codeNoName, ""},
		{"with space.example.org", typeA, codeNoName, ""},
		{"with\nline.example.org", typeA, codeNoName, ""},
		{"ä.example.org", typeA, codeNoName, ""},
	} {
		for _, opt := range []bool{false, true} {
			if code, address := ask(t, r, message(c.name, c.kind, opt)); code != c.code || address != c.address {
				t.Errorf("%q type %d: code %d, address %q; want %d, %q", c.name, c.kind, code, address, c.code, c.address)
			}
		}
	}
	for _, q := range h.asked {
		if name := strings.TrimPrefix(q, "resolve "); !valid(name) {
			t.Errorf("the host was asked to %q", q)
		}
	}
	if h.opened != 1 {
		t.Errorf("%d streams were opened for questions one after the other", h.opened)
	}
	r.SetHostname("other")
	if code, _ := ask(t, r, message("garden", typeA, false)); code != codeNoName {
		t.Errorf("the old host name: %d", code)
	}
}

// TestDotInLabel asks for a name whose label contains a dot, which must not be taken for
// another name.
func TestDotInLabel(t *testing.T) {
	h := &host{answer: allow}
	r := New(Config{Open: h.open, Names: NewNames()})
	msg := append([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 13}, "a.example.org"...)
	msg = append(msg, 0, 0, 1, 0, 1)
	if code, _ := ask(t, r, msg); code != codeNoName || len(h.asked) != 0 {
		t.Errorf("code %d, asked %q", code, h.asked)
	}
}

func TestMalformed(t *testing.T) {
	r := New(Config{Open: (&host{answer: allow}).open, Names: NewNames()})
	good := message("a.example.org", typeA, false)
	edit := func(change func([]byte) []byte) []byte { return change(bytes.Clone(good)) }
	for name, c := range map[string]struct {
		msg  []byte
		code int
	}{
		"empty":          {nil, -1},
		"short":          {good[:11], -1},
		"a response":     {edit(func(b []byte) []byte { b[2] |= 0x80; return b }), -1},
		"an update":      {edit(func(b []byte) []byte { b[2] |= 5 << 3; return b }), codeNotImplemented},
		"no question":    {edit(func(b []byte) []byte { b[5] = 0; return b }), codeFormat},
		"two questions":  {edit(func(b []byte) []byte { b[5] = 2; return b }), codeFormat},
		"an answer":      {edit(func(b []byte) []byte { b[7] = 1; return b }), codeFormat},
		"cut":            {good[:len(good)-1], codeFormat},
		"no end":         {good[:len(good)-5], codeFormat},
		"compressed":     {edit(func(b []byte) []byte { b[12] = 0xc0; return b }), codeFormat},
		"too long":       {message(strings.Repeat("abcdefg.", 32)+"example.org", typeA, false), codeFormat},
		"other class":    {edit(func(b []byte) []byte { b[len(b)-1] = 3; return b }), codeRefused},
		"a long label":   {edit(func(b []byte) []byte { b[12] = 64; return b }), codeFormat},
		"only a header":  {good[:12], codeFormat},
		"longest":        {message(strings.Repeat("abcdefg.", 30)+".example.org", typeA, false), codeOK},
		"the control":    {good, codeOK},
		"trailing bytes": {append(bytes.Clone(good), "trailing"...), codeOK},
	} {
		if code, _ := ask(t, r, c.msg); code != c.code {
			t.Errorf("%s: code %d, want %d", name, code, c.code)
		}
	}
}

// TestStreamsEnd ends the streams between questions, as a save of the sandbox does.
func TestStreamsEnd(t *testing.T) {
	h := &host{answer: allow}
	r := New(Config{Open: h.open, Names: NewNames()})
	for range 3 {
		if code, _ := ask(t, r, message("a.example.org", typeA, false)); code != codeOK {
			t.Errorf("code %d", code)
		}
		for _, s := range h.streams {
			s.Close()
		}
	}
	if h.opened != 3 {
		t.Errorf("%d streams", h.opened)
	}
	r.asker.close()
}

// TestQuestionsWait asks many questions at once: no more streams are open than a host has for them, and each question gets its answer.
func TestQuestionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := &host{answer: func(name string) envd.EgressAnswer { <-release; return allow(name) }}
		r := New(Config{Open: h.open, Names: NewNames()})
		defer r.asker.close()
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				if code, _ := ask(t, r, message(fmt.Sprintf("n%d.example.org", i), typeA, false)); code != codeOK {
					t.Errorf("question %d: code %d", i, code)
				}
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if h.opened != envd.MaxEgressResolvers {
			t.Errorf("%d streams", h.opened)
		}
	})
}

// TestHostileAnswers has the host send what is no answer.
func TestHostileAnswers(t *testing.T) {
	for _, text := range []string{"", "\n", "no\n", "{}\n{}\n", strings.Repeat("x", 1<<20)} {
		open := func(context.Context) (Stream, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				bufio.NewReader(theirs).ReadBytes('\n')
				io.WriteString(theirs, text)
			}()
			return ours, nil
		}
		r := New(Config{Open: open, Names: NewNames()})
		if code, _ := ask(t, r, message("a.example.org", typeA, false)); code != codeServerFailure {
			t.Errorf("%.20q: code %d", text, code)
		}
	}
}

// TestNoHost checks that a query fails soon if no host accepts streams.
func TestNoHost(t *testing.T) {
	r := New(Config{Open: (&host{}).open, Names: NewNames()})
	begin := time.Now()
	if code, _ := ask(t, r, message("a.example.org", typeA, false)); code != codeServerFailure {
		t.Errorf("code %d", code)
	}
	if took := time.Since(begin); took > askTimeout+patience.Of(10*time.Second) {
		t.Errorf("it took %v", took)
	}
}

// TestServe checks packets and connections.
func TestServe(t *testing.T) {
	h := &host{answer: allow}
	r := New(Config{Open: h.open, Names: NewNames()})
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { r.ServePackets(ctx, u) })
	query := message("a.example.org", typeA, true)
	c, err := net.Dial("udp4", u.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
	buf := make([]byte, 1500)
	for range 3 {
		c.Write([]byte("nonsense"))
		c.Write(query)
		n, err := c.Read(buf)
		if err != nil || !bytes.Equal(buf[:2], query[:2]) || n < len(query) || buf[3]&15 != codeOK {
			t.Fatalf("%x, %v", buf[:n], err)
		}
	}
	ours, theirs := net.Pipe()
	wg.Go(func() { r.ServeConn(ctx, theirs) })
	ours.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
	for range 3 {
		ours.Write(binary.BigEndian.AppendUint16(nil, uint16(len(query))))
		ours.Write(query)
		if _, err := io.ReadFull(ours, buf[:2]); err != nil {
			t.Fatal(err)
		}
		n := binary.BigEndian.Uint16(buf)
		if _, err := io.ReadFull(ours, buf[:n]); err != nil || !bytes.Equal(buf[:2], query[:2]) {
			t.Fatalf("%x, %v", buf[:n], err)
		}
	}
	ours.Write([]byte{0xff, 0xff})
	if _, err := ours.Read(buf); !errors.Is(err, io.EOF) {
		t.Errorf("after a query that is too long: %v", err)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add(message("a.example.org", typeA, false))
	f.Add(message("a.example.org", typeAAAA, true))
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	f.Add(append([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1}, bytes.Repeat([]byte{1, 'a'}, 300)...))
	f.Fuzz(func(t *testing.T, msg []byte) {
		q, code, ok := parse(msg)
		if !ok {
			return
		}
		if code == codeOK && len(q.name) > maxName {
			t.Errorf("a name of %d bytes", len(q.name))
		}
		if valid(q.name) && (strings.ContainsAny(q.name, "\x00\n\" ") || strings.ToLower(q.name) != q.name) {
			t.Errorf("%q is valid", q.name)
		}
		a := q.answer(code, netip.Addr{})
		again, _, _ := parse(append([]byte{a[0], a[1], a[2] &^ 0x80}, a[3:]...))
		if len(a) > 512 || code == codeOK && again.name != q.name {
			t.Errorf("the answer to %x is %x", msg, a)
		}
	})
}
