package hosted

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"Retry-After", "7", 7 * time.Second, true},
		{"Retry-After", " 0.5 ", 500 * time.Millisecond, true},
		{"Retry-After", "0", 0, true},
		{"Retry-After-Ms", "1250", 1250 * time.Millisecond, true},
		{"Retry-After", "Sat, 21 Nov 2026 12:01:30 GMT", 90 * time.Second, true},
		{"Retry-After", "Sat, 21 Nov 2026 11:00:00 GMT", 0, true},
		{"Retry-After", "Sat, 21 Nov 2099 11:00:00 GMT", maxWait, true},
		{"Retry-After", "1e300", maxWait, true},
		{"Retry-After", "Inf", maxWait, true},
		{"Retry-After", "-1", 0, false},
		{"Retry-After", "NaN", 0, false},
		{"Retry-After", "soon", 0, false},
		{"Other", "7", 0, false},
	} {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		if got, ok := retryAfter(h, now); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %s = %s, %v; want %s, %v", tt.name, tt.value, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "0.5", "1e400", "-0", "Sat, 21 Nov 2026 12:01:30 GMT", "Inf", "nan", "0x10"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, value string, ms bool) {
		h := http.Header{"Retry-After": {value}}
		if ms {
			h = http.Header{"Retry-After-Ms": {value}}
		}
		if d, ok := retryAfter(h, time.Now()); d < 0 || d > maxWait || (!ok && d != 0) {
			t.Errorf("%q: %s, %v", value, d, ok)
		}
	})
}

// A redirect is not followed: the key is for the first host alone.
func TestRedirect(t *testing.T) {
	second := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the second host was asked") }))
	defer second.Close()
	first := httptest.NewServer(http.RedirectHandler(second.URL+"/v1", http.StatusTemporaryRedirect))
	defer first.Close()
	_, err := NewClient(nil, Limits{}).Get(first.URL)
	if e := (Endpoint{Vendor: "v"}).Failure(t.Context(), err); api.KindOf(e) != api.KindInvalid || !strings.Contains(e.Error(), "a redirect to "+strings.TrimPrefix(second.URL, "http://")) {
		t.Errorf("%v", e)
	}
}

// What is no stream of events is not the API.
func TestNoStream(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>Welcome</html>")
	}))
	defer srv.Close()
	_, err := NewClient(nil, Limits{}).Get(srv.URL)
	if e := (Endpoint{Vendor: "v"}).Failure(t.Context(), err); api.KindOf(e) != api.KindInvalid || !strings.Contains(e.Error(), "text/html") || api.HintOf(e) == "" {
		t.Errorf("%v", e)
	}
}

// A stream has bounds: altogether, and for one event however it is cut into
// lines. An error's text ends at its own bound without being one.
func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		unit   string
		says   string
	}{
		{"one line", 200, "x", "an event"},
		{"lines without an end", 200, "data: x\n", "an event"},
		{"returns", 200, "data: x\r\n", "an event"},
		{"events for ever", 200, "data: x\n\n", "more than 100000 bytes"},
		{"events with returns", 200, "data: x\r\n\r\n", "more than 100000 bytes"},
		{"an endless error", 500, "x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(tt.status)
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, strings.Repeat(tt.unit, 100)); err != nil {
						return
					}
				}
			}))
			defer srv.Close()
			resp, err := NewClient(nil, Limits{Bytes: 100_000, Event: 10_000}).Get(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			n, err := io.Copy(io.Discard, resp.Body)
			if n > 100_000 {
				t.Errorf("read %d bytes", n)
			}
			if tt.says == "" && (err != nil || n != maxError) {
				t.Errorf("%d bytes, %v", n, err)
			}
			if tt.says != "" && (api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// However a stream is cut into reads, its events are measured alike.
func FuzzMeasure(f *testing.F) {
	f.Add([]byte("data: x\n\ndata: y\r\n\r\nz"), uint8(1))
	f.Add([]byte("\r\n\n\r\r\n\n"), uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint8) {
		var whole, parts meter
		whole.measure(stream)
		for rest := stream; len(rest) > 0; {
			n := min(int(cut)%7+1, len(rest))
			parts.measure(rest[:n])
			rest = rest[n:]
		}
		if parts != whole || whole.event > len(stream) {
			t.Errorf("%q: whole %d, in parts %d", stream, whole.event, parts.event)
		}
	})
}

func TestMessagesAreClean(t *testing.T) {
	e := Endpoint{Vendor: "v", Model: "m", BaseURL: "http://h", Key: "sk-1", KeyHint: "Set K."}
	err := e.Status(401, "", "bad key sk-1\n\x1b[31m"+strings.Repeat("é", 400), nil)
	if s := err.Error(); strings.Contains(s, "sk-1") || strings.ContainsAny(s, "\n\x1b") || len(s) > maxText+20 || !strings.HasPrefix(s, "v: 401 unauthorized: bad key [key]") {
		t.Errorf("%q", s)
	}
	if _, ok := model.RetryAfter(err); ok {
		t.Error("it asks to wait")
	}
}
