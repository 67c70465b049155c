package hosted

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

func eventsOf(stream string) *Events {
	return &Events{client: &Client{Endpoint: Endpoint{Vendor: "v"}}, ctx: context.Background(), body: io.NopCloser(nil), lines: bufio.NewReader(strings.NewReader(stream))}
}

func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string // name=data
	}{
		"none":                 {"", nil},
		"one":                  {"event: a\ndata: x\n\n", []string{"a=x"}},
		"returns":              {"event: a\r\ndata: x\r\n\r\ndata:y\r\n\r\n", []string{"a=x", "=y"}},
		"several lines":        {"data: x\ndata: y\ndata\n\n", []string{"=x\ny\n"}},
		"comments and others":  {": ping\nid: 7\nretry: 5\ndata:  x\n\n", []string{"= x"}},
		"a name without data":  {"event: a\n\ndata: x\n\n", []string{"=x"}},
		"empty data":           {"data:\n\n", []string{"="}},
		"cut before its end":   {"data: x\n\ndata: y\n", []string{"=x"}},
		"cut in a line":        {"data: x\n\ndata: y", []string{"=x"}},
		"empty lines in a row": {"\n\n\ndata: x\n\n\n\n", []string{"=x"}},
	} {
		e := eventsOf(c.stream)
		var got []string
		for e.Next() {
			got = append(got, e.Name()+"="+string(e.Data()))
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") || len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if err := e.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// However a stream is cut into reads, its events are the same, and they are not larger than it.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: x\r\ndata: y\n\n: c\n\ndata: [DONE]\n\n"), uint8(1))
	f.Add([]byte("data"), uint8(3))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		read := func(r io.Reader) (all []string, bytes int) {
			e := &Events{client: &Client{}, ctx: t.Context(), body: io.NopCloser(nil), lines: bufio.NewReaderSize(r, 16)}
			for e.Next() {
				all = append(all, e.Name()+"="+string(e.Data()))
				bytes += len(e.Data())
			}
			return all, bytes
		}
		whole, n := read(bytes.NewReader(stream))
		if parts, _ := read(&slow{stream, int(cut)%5 + 1}); strings.Join(parts, "|") != strings.Join(whole, "|") || n > len(stream) {
			t.Errorf("%q: %q whole, %q in parts", stream, whole, parts)
		}
	})
}

// slow gives a few bytes with each read.
type slow struct {
	rest []byte
	n    int
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct{ doc, class, text string }{
		{`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`, "overloaded_error", "busy"},
		{`{"error":{"message":"no credit","type":"insufficient_quota","code":"insufficient_quota"}}`, "insufficient_quota", "no credit"},
		{`{"error":{"message":"m","type":"t","code":null}}`, "t", "m"},
		{`{"error":{"message":"m","type":"t","code":404}}`, "t", "m"},
		{`{"error":"model 'x' not found"}`, "", "model 'x' not found"},
		{`{"message":"bad gateway","type":"proxy"}`, "proxy", "bad gateway"},
		{`{"error":{}}`, "", `{"error":{}}`},
		{`{"error":[1]}`, "", `{"error":[1]}`},
		{`[]`, "", `[]`},
		{`<html>`, "", `<html>`},
		{``, "", ``},
	} {
		if class, text := ErrorText([]byte(c.doc)); class != c.class || text != c.text {
			t.Errorf("%s: class %q, text %q; want %q, %q", c.doc, class, text, c.class, c.text)
		}
	}
}

// TestClient sends a request and meets every end of a call.
func TestClient(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"n\":1}\n\n")
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.URL.Path != "/base/path" || r.Header.Get("X-Key") != "k" || r.Header.Get("Content-Type") != "application/json" || string(b) != "{\"a\":\"<&\"}\n" {
			t.Errorf("%s %s %v %q", r.Method, r.URL.Path, r.Header, b)
		}
		answer(w, r)
	}))
	defer srv.Close()
	c := &Client{Endpoint: Endpoint{Vendor: "v", BaseURL: srv.URL + "/base/"}, Header: http.Header{"X-Key": {"k"}}, HTTP: NewClient(nil, Limits{})}
	call := func() (n int, err error) {
		e, err := c.Stream(t.Context(), "/path", map[string]string{"a": "<&"})
		if err != nil {
			return 0, err
		}
		for e.Next() {
			var v struct{ N int }
			if !e.Decode(&v) {
				break
			}
			if v.N < 0 {
				e.Fail()
				break
			}
			n += v.N
		}
		return n, e.Close()
	}
	if n, err := call(); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, c := range []struct {
		stream string
		kind   api.Kind
		says   string
	}{
		{"data: {\n\n", api.KindUnavailable, "v: cannot parse the answer"},
		{"data: {\"n\":-1,\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n", api.KindExhausted, "v: rate_limit_error: slow"},
	} {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, c.stream)
		}
		if _, err := call(); api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.stream, err)
		}
	}
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"slow"}}`)
	}
	_, err := call()
	var wait *model.Wait
	if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "429 too many requests: slow") || !errors.As(err, &wait) {
		t.Errorf("%v", err)
	}
}
