package broker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"hortus.dev/api/secrets"
)

// frame makes a WebSocket frame.
func frame(head byte, masked bool, payload string) string {
	b := []byte{head}
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if !masked {
		return string(b) + payload
	}
	key := []byte{1, 2, 3, 0xf4}
	b = append(b, key...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i&3])
	}
	return string(b)
}

// TestWebSocket sends frames, to a server that echoes them unmasked.
func TestWebSocket(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var got strings.Builder
	server := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Sec-Websocket-Extensions") != "" {
			t.Error("the extension was asked for")
		}
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if key := req.Header.Get("X-Key"); key != "" {
			long := strings.Repeat("0123456789", 20_000)
			io.WriteString(c, frame(0x01, false, "a "+key[:9])+frame(0x89, false, key)+frame(0x80, false, key[9:]+" b")+frame(0x82, false, long+key+" end")+frame(0x88, false, ""))
			return
		}
		b := make([]byte, 1000)
		for {
			n, err := brw.Read(b)
			mu.Lock()
			got.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
			c.Write(b[:n])
		}
	})
	r.http(server, "free.example.org:80", "api.example.org:80")
	secret := bearer("token")
	secret.Bindings[0].In.Name, secret.Bindings[0].Scheme = "X-Key", "http"
	p := r.grant(secret)[0]
	dial := func(host, header string) (net.Conn, *bufio.Reader, int) {
		c := r.open(host + ":80")
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n%s\r\n", host, header)
		br := bufio.NewReader(c)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, br, resp.StatusCode
	}
	big := strings.Repeat("x", 70_000)
	for name, frames := range map[string]func(text string) []string{
		"text":          func(x string) []string { return []string{frame(0x81, true, "a "+x)} },
		"binary, large": func(x string) []string { return []string{frame(0x82, true, big+x)} },
		"in parts":      func(x string) []string { f := frame(0x81, true, x); return []string{f[:1], f[1:5], f[5:20], f[20:]} },
		"fragments":     func(x string) []string { return []string{frame(0x01, true, x[:10]), frame(0x80, true, x[10:])} },
		"fragments with pings": func(x string) []string {
			return []string{frame(0x01, true, x[:10]) + frame(0x89, true, "ping") + frame(0x80, true, x[10:])}
		},
		"two messages": func(x string) []string { return []string{frame(0x81, true, x[:10]), frame(0x81, true, x[10:])} },
		"ping":         func(x string) []string { return []string{frame(0x89, true, x)} },
		"close":        func(x string) []string { return []string{frame(0x88, true, "\x03\xe8"+x)} },
	} {
		t.Run(name, func(t *testing.T) {
			send := func(text string) (echoed string) {
				mu.Lock()
				got.Reset()
				mu.Unlock()
				c, br, status := dial("free.example.org", "")
				if status != 101 {
					t.Fatal(status)
				}
				all := ""
				for _, part := range frames(text) {
					io.WriteString(c, part)
					all += part
				}
				b := make([]byte, len(all))
				n, _ := io.ReadFull(br, b)
				return string(b[:n])
			}
			harmless := strings.Repeat("h", PlaceholderSize)
			if echoed := send(harmless); echoed != strings.Join(frames(harmless), "") {
				t.Errorf("the control: %d bytes came back", len(echoed))
			}
			if refused, _ := r.alarms(); len(refused) != 0 {
				t.Errorf("the control was refused: %+v", refused)
			}
			if echoed := send(p); echoed == strings.Join(frames(p), "") {
				t.Error("it was sent")
			}
			if refused, _ := r.alarms(); len(refused) != 1 || refused[0].Secret != "token" {
				t.Errorf("%+v", refused)
			}
		})
	}
	for name, bytes := range map[string]string{"not masked": frame(0x81, false, "a"), "an extension": frame(0xc1, true, "a")} {
		c, br, _ := dial("free.example.org", "")
		io.WriteString(c, bytes)
		if b, _ := io.ReadAll(br); len(b) > 0 {
			t.Errorf("%s: %q came back", name, b)
		}
	}
	// Frames of a server that has the value.
	_, br, status := dial("api.example.org", "X-Key: "+p+"\r\n")
	b, err := io.ReadAll(br)
	stars := strings.Repeat("*", len(secretValue))
	want := frame(0x01, false, "a "+stars[:9]) + frame(0x89, false, stars) + frame(0x80, false, stars[9:]+" b") + frame(0x82, false, strings.Repeat("0123456789", 20_000)+stars+" end") + frame(0x88, false, "")
	if status != 101 || err != nil || string(b) != want {
		t.Errorf("%d, %v, %d bytes, want %d: %.100q", status, err, len(b), len(want), b)
	}
	r.server.Close()
	refused, used := r.alarms()
	for until := time.Now().Add(long); len(used) == 0 && time.Now().Before(until); { // the proxy closes the connection a moment later
		runtime.Gosched()
		refused, used = r.alarms()
	}
	if len(refused) != 0 || len(used) != 1 || used[0].Status != 101 || used[0].Received != int64(len(want)) {
		t.Errorf("%+v %+v", refused, used)
	}
}

// TestWebSocketRevoked revokes the secret that a WebSocket was opened with.
func TestWebSocketRevoked(t *testing.T) {
	r := newRig(t)
	r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for {
			if _, err := brw.ReadByte(); err != nil {
				return
			}
			c.Write([]byte(frame(0x81, false, "got")))
		}
	}), "api.example.org:80")
	secrets := []secrets.Secret{bearer("a"), bearer("b")}
	for i := range secrets {
		secrets[i].Bindings[0].Scheme = "http"
	}
	p := r.grant(secrets...)
	var readers []*bufio.Reader
	var conns []io.Writer
	for _, placeholder := range p {
		c := r.open("api.example.org:80")
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: %s\r\n\r\n", placeholder)
		br := bufio.NewReader(c)
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		readers, conns = append(readers, br), append(conns, c)
	}
	if err := r.session.SetGrants([]Grant{{Placeholder: p[1], Secret: secrets[1]}}); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(readers[0]); err != nil || len(b) > 0 {
		t.Errorf("%q %v", b, err)
	}
	io.WriteString(conns[1], frame(0x81, true, "x"))
	if b, err := readers[1].Peek(5); err != nil || string(b) != frame(0x81, false, "got") {
		t.Errorf("the control: %q %v", b, err)
	}
}

// FuzzFrames reads frames whole and divided.
func FuzzFrames(f *testing.F) {
	p := Prefix + strings.Repeat("a", randomChars)
	f.Add([]byte(frame(0x81, true, "a "+p)), int64(1))
	f.Add([]byte(frame(0x01, true, p[:5])+frame(0x89, true, "x")+frame(0x80, true, p[5:])), int64(2))
	f.Add([]byte(frame(0x82, true, strings.Repeat("x", 300))), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, seed int64) {
		if len(b) > 5000 {
			return
		}
		var whole, divided frames
		found, why := whole.scan(b)
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		found2, why2 := "", ""
		for rest := b; len(rest) > 0 && found2 == "" && why2 == ""; {
			n := 1 + rnd.IntN(min(len(rest), 60))
			found2, why2 = divided.scan(rest[:n])
			rest = rest[n:]
		}
		if found != found2 || why != why2 {
			t.Fatalf("whole: %q %q, divided: %q %q", found, why, found2, why2)
		}
	})
}

// FuzzServerFrames redacts frames whole and byte by byte, which have the same size as before.
func FuzzServerFrames(f *testing.F) {
	v := "value-of-a-secret"
	f.Add([]byte(frame(0x81, false, "a "+v)))
	f.Add([]byte(frame(0x01, false, v[:5]) + frame(0x89, false, v) + frame(0x80, false, v[5:]) + frame(0x88, false, "")))
	f.Add([]byte(frame(0x82, false, strings.Repeat("value-of-", 50))))
	red := newRedactor(map[string]string{v: "x"})
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, err := io.ReadAll(newServerFrames(red, strings.NewReader(string(b)), func() {}))
		if strings.Contains(string(whole), v) && !strings.Contains(string(b), v) {
			t.Fatalf("%q became %q", b, whole)
		}
		if err != nil {
			return
		}
		single, err := io.ReadAll(newServerFrames(red, iotest.OneByteReader(strings.NewReader(string(b))), func() {}))
		if err != nil || string(single) != string(whole) {
			t.Fatalf("whole: %q, byte by byte: %q, %v", whole, single, err)
		}
		if len(whole) > len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(whole))
		}
	})
}
