package broker

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// guesser is a sandbox that has a server repeat its guesses, and sees how much of the answer arrives.
type guesser struct {
	t    *testing.T
	r    *rig
	c    *http.Client
	path string
	more chan struct{} // has the server go on; from it if the client has left
}

// newGuesser starts a server that repeats the body of a request and breaks off: at /gzip in the middle of
// compressed data, at /pause when the client has seen enough, at /length before the length that it stated.
func newGuesser(t *testing.T, http2 bool) *guesser {
	r := newRig(t)
	g := &guesser{t: t, r: r, more: make(chan struct{})}
	r.https(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		switch req.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(body)
			z.Flush()
			http.NewResponseController(w).Flush()
		case "/pause":
			w.Write(body)
			http.NewResponseController(w).Flush()
			select {
			case <-g.more:
			case <-req.Context().Done():
				g.more <- struct{}{}
			}
		case "/length":
			w.Header().Set("Content-Length", "100000")
			w.Write(body)
			http.NewResponseController(w).Flush()
		case "/whole":
			return
		}
		panic(http.ErrAbortHandler)
	}), "api.example.org:443")
	r.grant(bearer("token"))
	g.c = r.client(http2)
	return g
}

// sees returns how many bytes of a guess arrive.
func (g *guesser) sees(guess string) int {
	resp, err := g.c.Do(request(g.t, "POST", "https://api.example.org"+g.path, strings.NewReader(guess)))
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	n := 0
	if g.path == "/pause" {
		// As much arrives while the server waits.
		first, err := io.ReadFull(resp.Body, make([]byte, 500))
		if err != nil {
			g.t.Fatal(err)
		}
		n = first
		g.more <- struct{}{}
	}
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		g.t.Fatal("the answer is whole")
	}
	return n + len(b)
}

// read reads the beginnings of all forms of a value, character by character: those of which more or less
// arrives than of a text that is none.
func (g *guesser) read(filler, alphabet string, n int) (known []string) {
	known = []string{""}
	for size := 1; size <= n; size++ {
		wrong := g.sees(filler + strings.Repeat("~", size))
		var next []string
		for _, text := range known {
			for _, c := range alphabet {
				if text := text + string(c); g.sees(filler+text) != wrong {
					next = append(next, text)
				}
			}
		}
		known = next
	}
	return known
}

// TestPrefixOracle tries to read a value out of a server that repeats what it gets: nothing that the sandbox
// sees of an answer that breaks off depends on whether it ends in the beginning of the value.
func TestPrefixOracle(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(secretValue))
	for _, http2 := range []bool{false, true} {
		g := newGuesser(t, http2)
		for _, g.path = range []string{"/gzip", "/pause", "/length"} {
			for name, filler := range map[string]string{"one line": strings.Repeat("x", 1000), "lines": strings.Repeat("a line\n", 150)} {
				if got := g.read(filler, "Cdl4NjvRz", 3); len(got) > 0 {
					t.Errorf("%s, %s, HTTP/2 %v: the value %.3q..., in base64 %.3q..., has been read: %q", g.path, name, http2, secretValue, encoded, got)
				}
			}
		}
	}
}

// TestBroken: an answer that a server breaks off is recorded, and many of them are an alarm; those that the client leaves,
// and whole ones, are not.
func TestBroken(t *testing.T) {
	k := &clock{at: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	g := newGuesser(t, true)
	g.r.broker.cfg.Now = k.now
	counts := func() (broken, alarms int) {
		g.r.mu.Lock()
		defer g.r.mu.Unlock()
		for _, u := range g.r.uses {
			if !u.Broken || u.Secret != "token" || u.Host != "api.example.org" || u.Sandbox != "sbx_1" || u.Status != 200 {
				t.Errorf("recorded %+v", u)
			}
			if broken++; u.Alarm() {
				alarms++
			}
		}
		g.r.uses = nil
		return broken, alarms
	}
	g.path = "/gzip"
	for range 16 {
		g.sees(strings.Repeat("text", 250))
		k.add(time.Second)
	}
	if broken, alarms := counts(); broken != 16 || alarms != 0 {
		t.Errorf("%d answers are recorded, %d alarms", broken, alarms)
	}
	g.path = "/length"
	g.sees(strings.Repeat("text", 250))
	if broken, alarms := counts(); broken != 2 || alarms != 1 {
		t.Errorf("at the next one %d are recorded, %d alarms", broken, alarms)
	}
	for range 100 {
		g.sees(strings.Repeat("text", 250))
	}
	if broken, alarms := counts(); broken > maxOvers || alarms != 0 {
		t.Errorf("of a flood %d are recorded, %d alarms", broken, alarms)
	}
	k.add(time.Minute)
	for range 17 {
		g.sees(strings.Repeat("text", 250))
	}
	if _, alarms := counts(); alarms != 1 {
		t.Errorf("a minute later, %d alarms", alarms)
	}
	k.add(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := g.c.Do(request(t, "POST", "https://api.example.org/pause", strings.NewReader(strings.Repeat("x", 1000))).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(resp.Body, make([]byte, 500))
	cancel()
	<-g.more
	resp.Body.Close()
	resp, err = g.c.Do(request(t, "GET", "https://api.example.org/whole", nil))
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	g.r.server.Close()
	if broken, _ := counts(); broken != 0 {
		t.Errorf("%d answers are recorded that no server broke off", broken)
	}
}

// TestWithheld: how much of a stream has been passed on depends on its size only, wherever it was divided, and on line ends.
func TestWithheld(t *testing.T) {
	red := newRedactor(map[string]string{secretValue: "x"})
	passed := func(text string, end error) int {
		b, err := io.ReadAll(&searchedStream{r: red, src: iotest.DataErrReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(end)))})
		if err != end {
			t.Fatal(err)
		}
		single, err := io.ReadAll(&searchedStream{r: red, src: io.MultiReader(iotest.OneByteReader(strings.NewReader(text)), iotest.ErrReader(end))})
		if err != end || !bytes.Equal(b, single) {
			t.Errorf("%q: whole %q, byte by byte %q, %v", text, b, single, err)
		}
		return len(b)
	}
	for size := 0; size < 3*red.hold; size += 7 {
		want := max(size-red.hold, 0)
		for _, ends := range append(encoded(secretValue), secretValue) {
			if len(ends) > 20 {
				ends = ends[:20]
			}
			text := strings.Repeat("x", max(size-len(ends), 0)) + ends
			if got := passed(text[len(text)-size:], io.ErrUnexpectedEOF); got != want {
				t.Fatalf("%d bytes that end in %q: %d are passed on, want %d", size, ends, got, want)
			}
		}
	}
	// A line is passed on when it ends, and a message of an event stream.
	for _, text := range []string{"data: {\"a\": 1}\n\n", "data: " + strings.Repeat("QUJD", 20) + "\n\n", "{}\n", "a line\r\n" + secretValue[:9] + "\n"} {
		if got := passed(text, io.ErrUnexpectedEOF); got != len(text) {
			t.Errorf("of %q %d bytes are passed on", text, got)
		}
	}
}

// TestWebSocketOracle: the same for messages that a server does not end.
func TestWebSocketOracle(t *testing.T) {
	r := newRig(t)
	r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		whole := frame(0x81, false, req.URL.Query().Get("guess"))
		part := frame(0x01, false, strings.Repeat("x", 500)+req.URL.Query().Get("guess"))
		if req.URL.Path == "/frame" { // the frame does not end either
			part = frame(0x01, false, strings.Repeat("x", 500)+req.URL.Query().Get("guess")+"yy")
			part = part[:len(part)-2]
		}
		io.WriteString(c, whole+part)
	}), "api.example.org:80")
	secret := bearer("token")
	secret.Bindings[0].Scheme = "http"
	r.grant(secret)
	sees := func(path, guess string) int {
		c := r.open("api.example.org:80")
		fmt.Fprintf(c, "GET %s?guess=%s HTTP/1.1\r\nHost: api.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", path, percent(guess))
		br := bufio.NewReader(c)
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		b, _ := io.ReadAll(br)
		if !strings.HasPrefix(string(b), frame(0x81, false, guess)) {
			t.Errorf("the whole message with %q arrives as %q", guess, b)
		}
		return len(b)
	}
	for _, path := range []string{"/fragment", "/frame"} {
		for n := 1; n < 9; n++ {
			right, wrong := sees(path, secretValue[:n]), sees(path, strings.Repeat("?", n))
			if right != wrong || right < 200 {
				t.Errorf("%s, %d characters: %d bytes arrive of a right guess, %d of a wrong one", path, n, right, wrong)
			}
		}
	}
}

// TestSearchTime: what is compared does not depend on how much of a value is there.
func TestSearchTime(t *testing.T) {
	value := rand.Text()
	red := newRedactor(map[string]string{value: "x"})
	hits := func(text string) (n int) {
		f := &red.raw
		for at := 0; at+f.size <= len(text); at++ {
			n += len(f.starts[f.hash([]byte(text)[at:])])
		}
		return n
	}
	for n := range len(value) {
		if got := hits(strings.Repeat(value[:n]+"?", 100)); got > 0 {
			t.Errorf("the first %d characters are compared %d times", n, got)
		}
	}
	if got := hits("a " + value); got == 0 {
		t.Error("the control: the value is not compared")
	}
}

// TestMessages: a message of gRPC is searched and passed on when it is complete, and its size remains.
func TestMessages(t *testing.T) {
	red := newRedactor(map[string]string{secretValue: "x"})
	message := func(flag byte, text string) string {
		return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(text)))) + text
	}
	stars := strings.Repeat("*", len(secretValue))
	read := func(text string, end error) (string, error) {
		all := func(src io.Reader) (string, error) {
			b, err := io.ReadAll(&searchedStream{r: red, src: io.MultiReader(src, iotest.ErrReader(end)), fixed: true, messages: messagesOf("application/grpc+proto")})
			return string(b), err
		}
		whole, err := all(strings.NewReader(text))
		if single, err2 := all(iotest.OneByteReader(strings.NewReader(text))); single != whole || err2 != err {
			t.Errorf("whole %q %v, byte by byte %q %v", whole, err, single, err2)
		}
		return whole, err
	}
	begin := message(0, "a "+secretValue) + message(0, "") + message(0, secretValue[:9])
	want := message(0, "a "+stars) + message(0, "") + message(0, secretValue[:9])
	if got, err := read(begin, io.ErrUnexpectedEOF); got != want || err != io.ErrUnexpectedEOF {
		t.Errorf("%q %v", got, err)
	}
	if got, _ := read(begin+message(0, strings.Repeat("x", 1000))[:605], io.ErrUnexpectedEOF); len(got) != len(want)+605-red.hold {
		t.Errorf("of a message that is not complete, %d bytes are passed on", len(got)-len(want))
	}
	if _, err := read(begin+message(1, "compressed"), io.EOF); err != errCompressed {
		t.Errorf("a compressed message: %v", err)
	}
	for kind, want := range map[string]bool{"application/grpc": true, "application/grpc-web+proto": true, "application/connect+json": true, "application/grpc-web-text": false, "application/json": false} {
		if (messagesOf(kind) != nil) != want {
			t.Error(kind)
		}
	}
}
