package envd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
)

// Any bytes are read without a panic, and what was understood survives another
// round.
func FuzzDecodeProto(f *testing.F) {
	for i, s := range samples() {
		b, _ := Append(nil, Proto, s.msg)
		f.Add(byte(i), b)
	}
	all := samples()
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		s := all[int(which)%len(all)]
		m := s.empty()
		if Decode(data, Proto, m) != nil {
			return
		}
		b, err := Append(nil, Proto, m)
		if err != nil {
			t.Fatal(err)
		}
		again := s.empty()
		if err := Decode(b, Proto, again); err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		c, _ := Append(nil, Proto, again)
		if !bytes.Equal(b, c) {
			t.Fatalf("the second round differs: %s", cmp.Diff(m, again))
		}
	})
}

func FuzzDecodeJSON(f *testing.F) {
	for i, s := range samples() {
		b, _ := Append(nil, JSON, s.msg)
		f.Add(byte(i), b)
	}
	all := samples()
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		s := all[int(which)%len(all)]
		m := s.empty()
		if Decode(data, JSON, m) != nil {
			return
		}
		// A year beyond RFC 3339, by a shift of its time zone, is the one thing that is
		// read and not written.
		if _, err := Append(nil, JSON, m); err != nil && !strings.Contains(err.Error(), "year outside of range") {
			t.Errorf("read and not written: %v", err)
		}
	})
}

func FuzzFrameReader(f *testing.F) {
	b, _ := AppendFrame(nil, Proto, &StartEvent{PID: 1})
	f.Add(AppendEnd(b, nil))
	f.Add(AppendEnd(nil, &Error{Code: CodeNotFound, Message: "x"}))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		fr := FrameReader{R: bytes.NewReader(data), Max: 1 << 10}
		var total int
		for {
			flags, p, err := fr.Next()
			if err != nil {
				break
			}
			if len(p) > 1<<10 {
				t.Fatal("a frame above the bound")
			}
			total += HeadLen + len(p)
			if flags&FlagEnd != 0 {
				ParseEnd(p)
			}
		}
		if total > len(data) {
			t.Fatal("more was read than there is")
		}
	})
}

// answerer returns the same bytes to whatever is asked.
func answerer(data []byte) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		a, b := net.Pipe()
		go func() {
			defer b.Close()
			br := bufio.NewReader(b)
			for { // the request's head; what follows is small
				line, err := br.ReadString('\n')
				if err != nil {
					return
				}
				if line == "\r\n" {
					break
				}
			}
			go io.Copy(io.Discard, br)
			b.Write(data)
		}()
		return a, nil
	}
}

// Whatever a guest answers, the client ends with events or an error, bounded, and with
// nothing in its text that steers a terminal.
func FuzzClientAnswers(f *testing.F) {
	for _, body := range []string{`{"code":"a\u001b","message":"\u001b[2J\u009b\u0000"}`, "\x1b[2J\x9b no JSON"} {
		f.Add(fmt.Appendf(nil, "HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
	f.Add([]byte("HTTP/1.1 \x1b[2J\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Type: \x1b[2J\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n\r\n"))
	b, _ := AppendFrame(nil, Proto, &ProcessResponse{Event: &ProcessEvent{Start: &StartEvent{PID: 9}}})
	b = AppendEnd(b, nil)
	head := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nTransfer-Encoding: chunked\r\n\r\n")
	f.Add(append(appendChunk(head, b), "0\r\n\r\n"...))
	f.Add([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 20\r\n\r\n{\"code\":\"not_found\"}"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewClient(ClientConfig{Dial: answerer(data), MaxFrame: 1 << 12, Timeout: 5 * time.Second})
		defer c.Close()
		ctx := context.Background()
		harmless := func(err error) {
			steers := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
			if err != nil && (len(err.Error()) > 16<<10 || strings.ContainsFunc(err.Error(), steers)) {
				t.Errorf("%q", err.Error())
			}
		}
		s, err := c.Start(ctx, &StartRequest{}, StartOptions{})
		harmless(err)
		if err == nil {
			for range 10_000 {
				if _, err := s.Next(); err != nil {
					harmless(err)
					break
				}
			}
			s.Close()
		}
		_, err = c.List(ctx)
		harmless(err)
		r, _, err := c.ReadFile(ctx, "", "x")
		harmless(err)
		if err == nil {
			io.CopyN(io.Discard, r, 1<<20)
			r.Close()
		}
	})
}

func TestErrorsMapBothWays(t *testing.T) {
	for _, k := range api.Kinds {
		e := FromAPI(api.Errorf(k, "it failed"))
		if e.Message != "it failed" || e.HTTPStatus() < 400 {
			t.Errorf("%s: %+v", k, e)
		}
		switch k {
		case api.KindUnisolated, api.KindDeclined: // they have no code of their own
		default:
			if got := e.API().Kind; got != k {
				t.Errorf("%s comes back as %s", k, got)
			}
		}
	}
	if FromAPI(nil) != nil {
		t.Error("nil is an error")
	}
	var e *Error
	if err := error((&Error{Code: CodeNotFound, Message: "m"}).API()); !errors.As(err, &e) || err.Error() != "m" {
		t.Error("the cause is lost")
	}
}

// TestProblem: the kind of a daemon's problem counts, not only its status, and what has ended is gone, in answers and in streams. A guest does
// not say that its sandbox is gone.
func TestProblem(t *testing.T) {
	ended := api.Errorf(api.KindUnavailable, "it has ended")
	ended.Gone = true
	for body, want := range map[string]struct {
		status int
		kind   api.Kind
		gone   bool
	}{
		`{"status":409,"kind":"conflict","detail":"paused"}`:    {409, api.KindConflict, false},
		`{"status":409,"kind":"exists","detail":"there"}`:       {409, api.KindExists, false},
		`{"status":410,"kind":"unavailable","detail":"ended"}`:  {410, api.KindUnavailable, true},
		`{"status":"410","kind":7,"detail":"ended","gone":"1"}`: {404, api.KindNotFound, false},
		`{"kind":"nosuch","message":"other"}`:                   {404, api.KindNotFound, false},
	} {
		e := ParseAnswer(want.status, []byte(body))
		if got := e.API(); got.Kind != want.kind || got.Gone != want.gone || api.GoneOf(APIError(e)) {
			t.Errorf("%s: %+v", body, got)
		}
	}
	frame := AppendEnd(nil, FromAPI(ended))
	if got := ParseEnd(frame[5:]).API(); !got.Gone || got.Kind != api.KindUnavailable || got.Error() != "it has ended" {
		t.Errorf("%s: %+v", frame[5:], got)
	}
}

func TestBoundsOfDecoders(t *testing.T) {
	var many []byte
	for range maxItems + 1 {
		many = append(many, 0x12, 0) // ProcessConfig.args
	}
	if err := Decode(many, Proto, new(ProcessConfig)); err == nil {
		t.Error("a list without bound")
	}
	js := append([]byte(`{"args":[`), bytes.Repeat([]byte(`"",`), maxItems)...)
	js = append(js, `""]}`...)
	if err := Decode(js, JSON, new(ProcessConfig)); err == nil {
		t.Error("a JSON list without bound")
	}
	// As another argument they would name another file.
	for _, text := range []string{"{\"args\":[\"\xff\"]}", `{"args":["\udcff"]}`} {
		if err := Decode([]byte(text), JSON, new(ProcessConfig)); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
