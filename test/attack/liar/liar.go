package liar

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// Variable is the variable of a sandbox that names the lie of its guest.
const Variable = "ATTACK_LIE"

// Main runs as process 1 of a container in place of the guest, with the lie that the
// sandbox's [Variable] names, and returns the exit code.
func Main(lie string) int {
	if strings.HasPrefix(lie, "birth ") {
		return lieAtBirth(lie)
	}
	ctrl := os.NewFile(birth.ControlFD, "control")
	buf := make([]byte, birth.MaxPacket)
	if _, err := ctrl.Read(buf); err != nil { // its configuration
		return 1
	}
	l, err := net.FileListener(os.NewFile(birth.ListenFD, "listener"))
	if err != nil {
		return 1
	}
	if _, err := ctrl.WriteString(`{"ready":true}`); err != nil {
		return 1
	}
	if n, err := ctrl.Read(buf); err != nil || string(buf[:n]) != birth.GoPacket {
		return 1
	}
	if lie == "exit after go" {
		return 0
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		if lie == "exit at accept" {
			return 3
		}
		go serveLie(lie, c)
	}
}

// lieAtBirth lies before the host has recorded the sandbox.
func lieAtBirth(lie string) int {
	ctrl := os.NewFile(birth.ControlFD, "control")
	buf := make([]byte, birth.MaxPacket)
	if lie == "birth exits before its configuration" {
		return 0
	}
	ctrl.Read(buf)
	switch lie {
	case "birth exits after its configuration":
		return 0
	case "birth garbage":
		ctrl.Write([]byte("\x00\xff{]garbage"))
	case "birth empty packet":
		unix.Sendmsg(birth.ControlFD, nil, nil, nil, 0)
	case "birth huge":
		ctrl.WriteString(`{"ready":true,"error":"` + strings.Repeat("A", 100<<10) + `"}`)
	case "birth not ready":
		ctrl.WriteString(`{"ready":false,"stage":"` + strings.Repeat("S", 1000) + `","error":"\u001b[2J` + strings.Repeat("\u00ff", 1000) + `"}`)
	case "birth descriptors":
		fds := make([]int, 200)
		for i := range fds {
			fds[i] = birth.ListenFD
		}
		unix.Sendmsg(birth.ControlFD, []byte(`{"ready":true}`), unix.UnixRights(fds...), nil, 0)
	case "birth flood":
		for {
			if _, err := ctrl.WriteString(`{"ready":false,"error":"again"}`); err != nil {
				break
			}
		}
	case "birth exits after its report":
		ctrl.WriteString(`{"ready":true}`)
		return 0
	}
	for {
		unix.Pause() // silence
	}
}

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nHortus-Version: 1\r\n\r\n"
	chunkHead  = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nTransfer-Encoding: chunked\r\n\r\n"
)

func said(ev *envd.ProcessEvent) []byte {
	b, err := envd.AppendFrame(nil, envd.Proto, &envd.ProcessResponse{Event: ev})
	if err != nil {
		panic(err)
	}
	return b
}

func started(pid uint32) []byte {
	return said(&envd.ProcessEvent{Start: &envd.StartEvent{PID: pid}})
}

func exited(code int32, cause string) []byte {
	return said(&envd.ProcessEvent{End: &envd.EndEvent{ExitCode: code, Exited: true, Status: "exit status", Cause: cause}})
}

func output(n int, offset int64) []byte {
	return said(&envd.ProcessEvent{Data: &envd.DataEvent{Stdout: bytes.Repeat([]byte("y"), n), Offset: offset}})
}

func chunk(p []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(p), p) }

// ended is a plain end of a stream.
var ended = envd.AppendEnd(nil, nil)

// forever writes p until the host hangs up.
func forever(c net.Conn, p []byte) {
	p = bytes.Repeat(p, max(1, 64<<10/len(p)))
	for {
		if _, err := c.Write(p); err != nil {
			return
		}
	}
}

// hang keeps the connection without a word until the host gives up.
func hang(c net.Conn) { io.Copy(io.Discard, c) }

// serveLie answers one connection.
func serveLie(lie string, c net.Conn) {
	defer c.Close()
	w := func(parts ...any) {
		var b []byte
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				b = append(b, p...)
			case []byte:
				b = append(b, p...)
			}
		}
		c.Write(b)
	}
	switch lie { // those that do not wait for a request
	case "accept and close":
		return
	case "answer before the request":
		w("HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n\r\n")
		w("HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n\r\n")
		hang(c)
		return
	case "garbage":
		forever(c, []byte("\x00\x01\xfe\xffgarbage\x1b[2J"))
		return
	}
	br := bufio.NewReader(c)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	if lie == "exit at request" {
		os.Exit(3)
	}
	stream := strings.HasSuffix(req.URL.Path, "/Start") || strings.HasSuffix(req.URL.Path, "/Connect")
	if req.URL.Path == envd.PathFiles || !stream {
		lieInAnswer(lie, c, w)
		return
	}
	switch lie {
	case "half a head":
		w("HTTP/1.1 200 OK\r\nContent-")
		hang(c)
	case "endless headers":
		w("HTTP/1.1 200 OK\r\n")
		forever(c, []byte("X-Lie: lie\r\n"))
	case "endless header line":
		w("HTTP/1.1 200 OK\r\nX-Lie: ")
		forever(c, []byte("lie"))
	case "endless 100":
		forever(c, []byte("HTTP/1.1 100 Continue\r\n\r\n"))
	case "endless 103":
		forever(c, []byte("HTTP/1.1 103 Early Hints\r\nSet-Cookie: lie=1\r\n\r\n"))
	case "switching protocols":
		w("HTTP/1.1 101 Switching Protocols\r\nUpgrade: lie\r\nConnection: Upgrade\r\n\r\n")
		forever(c, []byte("lie"))
	case "redirect":
		w("HTTP/1.1 302 Found\r\nLocation: http://localhost/\r\nContent-Length: 0\r\n\r\n")
	case "endless error":
		w("HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\n\r\n", `{"code":"internal","message":"`)
		forever(c, []byte("lie\x1b[2J"))
	case "silent error":
		w("HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n")
		hang(c)
	case "another content type":
		w("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: lie=1\r\n\r\n", "<script>")
		forever(c, []byte("lie"))
	case "too long":
		w("HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nContent-Length: 10\r\n\r\n", started(7), ended, ended, ended)
		hang(c)
	case "too short":
		w("HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nContent-Length: 1152921504606846976\r\n\r\n", started(7))
	case "negative length":
		w("HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nContent-Length: -1\r\n\r\n", started(7))
	case "frame of 4 GiB":
		w(streamHead, []byte{0, 0xff, 0xff, 0xff, 0xff})
		forever(c, []byte("lie"))
	case "frame of 4 GiB after the start":
		w(streamHead, started(7), []byte{0, 0xff, 0xff, 0xff, 0xff})
		forever(c, []byte("lie"))
	case "half a frame":
		w(streamHead, started(7), []byte{0, 0, 0, 1, 0, 1, 2, 3})
	case "half a frame and silence":
		w(streamHead, started(7), []byte{0, 0, 0, 1, 0, 1, 2, 3})
		hang(c)
	case "compressed frame":
		w(streamHead, started(7), []byte{1, 0, 0, 0, 1, 0})
	case "malformed message":
		w(streamHead, started(7), []byte{0, 0, 0, 0, 4, 0x0a, 0xff, 0xff, 0xff})
	case "head and silence":
		w(streamHead)
		hang(c)
	case "end without start":
		w(streamHead, exited(0, ""), ended)
	case "end mark alone":
		w(streamHead, ended)
	case "data without start":
		w(streamHead, output(10, 0), exited(0, ""), ended)
	case "start and cut":
		w(streamHead, started(7))
	case "start and end mark":
		w(streamHead, started(7), ended)
	case "start and silence":
		w(streamHead, started(7))
		hang(c)
	case "start and error":
		w(streamHead, started(7), envd.AppendEnd(nil, &envd.Error{Code: "no such code", Message: strings.Repeat("\x1b[2Jlie", 1<<18)}))
	case "error of megabytes":
		w(streamHead, envd.AppendEnd(nil, &envd.Error{Code: strings.Repeat("c", 1<<20), Message: strings.Repeat("m", 2<<20)}))
	case "malformed end mark":
		w(streamHead, started(7), []byte{envd.FlagEnd, 0, 0, 0, 3, '{', 'x', ']'})
	case "endless output":
		w(streamHead, started(7))
		forever(c, output(64<<10, 0))
	case "ten million empty frames":
		w(streamHead, started(7))
		empty := bytes.Repeat([]byte{0, 0, 0, 0, 0}, 10_000)
		for range 1000 {
			if _, err := c.Write(empty); err != nil {
				return
			}
		}
	case "ten million starts":
		w(streamHead, started(7))
		forever(c, started(8))
	case "huge list":
		// An event whose fields are many empty messages.
		body := bytes.Repeat([]byte{0x0a, 0x00}, 2<<20-16)
		w(streamHead, started(7), []byte{0}, binary.BigEndian.AppendUint32(nil, uint32(len(body))), body, body)
	case "exit code 256", "exit code -1", "exit code 2147483647", "exit code -2147483648":
		var code int32
		fmt.Sscanf(lie, "exit code %d", &code)
		w(streamHead, started(7), exited(code, ""), ended)
	case "invented cause":
		w(streamHead, started(7), exited(9, strings.Repeat("killed\x1b[2J", 1<<16)), ended)
	case "wrong pid":
		w(streamHead, started(1<<32-1), exited(0, ""), ended)
	case "offsets go back":
		w(streamHead, started(7), output(10, 1000), output(10, 0), output(10, -5), output(10, 1<<62), exited(0, ""), ended)
	case "end and silence":
		w(streamHead, started(7), exited(0, ""))
		hang(c)
	case "end and more output":
		w(streamHead, started(7), exited(0, ""))
		forever(c, output(64<<10, 0))
	case "end mark and silence":
		w(chunkHead, chunk(started(7)), chunk(exited(0, "")), chunk(ended)) // the last chunk never comes
		hang(c)
	case "end mark and endless rest":
		w(chunkHead, chunk(started(7)), chunk(exited(0, "")), chunk(ended))
		forever(c, chunk([]byte("lie")))
	case "trailers":
		w("HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nTransfer-Encoding: chunked\r\n\r\n",
			chunk(started(7)), chunk(exited(0, "")), chunk(ended), "0\r\nSet-Cookie: lie=1\r\nX-Lie: lie\r\n\r\n")
	default: // silence
		hang(c)
	}
}

// lieInAnswer answers a request that is no stream.
func lieInAnswer(lie string, c net.Conn, w func(...any)) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\n"
	switch {
	case strings.Contains(lie, "headers"):
		w("HTTP/1.1 200 OK\r\n")
		forever(c, []byte("X-Lie: lie\r\n"))
	case strings.Contains(lie, "103"):
		w("HTTP/1.1 103 Early Hints\r\nSet-Cookie: lie=1\r\nX-Lie: lie\r\n\r\n")
		w("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nSet-Cookie: lie=1\r\nContent-Length: 3\r\n\r\nlie")
	case strings.Contains(lie, "trailers"):
		w(head, "Transfer-Encoding: chunked\r\n\r\n", chunk([]byte{0x12, 0x00}), "0\r\nSet-Cookie: lie=1\r\nX-Lie: lie\r\n\r\n")
	case strings.Contains(lie, "too short"):
		w(head, "Content-Length: 1152921504606846976\r\n\r\n", "lie")
	case strings.Contains(lie, "too long"):
		w(head, "Content-Length: 3\r\n\r\n")
		forever(c, []byte("lie"))
	case strings.Contains(lie, "huge list"):
		w(head, "\r\n", bytes.Repeat([]byte{0x0a, 0x00}, 2<<20-16))
	case strings.Contains(lie, "end mark and silence"):
		w(head, "Transfer-Encoding: chunked\r\n\r\n", chunk([]byte{0x0a, 0x00}))
		hang(c)
	case strings.Contains(lie, "endless"):
		w(head, "\r\n")
		forever(c, []byte{0x0a, 0x00})
	case strings.Contains(lie, "malformed"):
		w(head, "Content-Length: 3\r\n\r\n", []byte{0x0a, 0xff, 0xff})
	case strings.Contains(lie, "redirect"):
		w("HTTP/1.1 302 Found\r\nLocation: http://localhost/\r\nContent-Length: 0\r\n\r\n")
	case strings.Contains(lie, "switching"):
		w("HTTP/1.1 101 Switching Protocols\r\nUpgrade: lie\r\nConnection: Upgrade\r\n\r\n")
		forever(c, []byte("lie"))
	default:
		hang(c)
	}
}
