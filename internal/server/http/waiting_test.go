package http_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestWaits: a client that accepts lines is told for what the sandbox that it requests waits, before it begins, and then gets the answer. Others
// get the answer alone.
func TestWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		accept, isolation string
		key               bool
		status            int
		lines             []api.LineType // none if the answer is not in lines
	}{
		"told":              {"application/json, application/x-ndjson", "waits", false, 200, []api.LineType{api.LineWaiting, api.LineWaiting, api.LineDone}},
		"told with a key":   {"application/x-ndjson", "waits", true, 200, []api.LineType{api.LineWaiting, api.LineWaiting, api.LineDone}},
		"told of a failure": {"application/x-ndjson", "waits in vain", false, 200, []api.LineType{api.LineWaiting, api.LineWaiting, api.LineError}},
		"does not wait":     {"application/x-ndjson", "", false, 201, nil},
		"fails at once":     {"application/x-ndjson", "full", false, 429, nil},
		"not told":          {"application/json", "waits", false, 201, nil},
		"refuses lines":     {"application/json, application/x-ndjson;q=0", "waits", false, 201, nil},
		"fails, not told":   {"", "waits in vain", false, 429, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakes{waits: make(chan struct{}, 1), once: keeper(t)}
			_, path := serve(t, f)
			hc := unix(path)
			defer hc.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://server/v1/sandboxes", strings.NewReader(`{"isolation":"`+tt.isolation+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if tt.accept != "" {
				req.Header.Set("Accept", tt.accept)
			}
			if tt.key {
				req.Header.Set("Idempotency-Key", "k1")
			}
			if tt.lines == nil {
				close(f.waits) // nobody has to learn of it first
			}
			resp, err := hc.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if tt.lines == nil {
				b, err := io.ReadAll(resp.Body)
				if kind := resp.Header.Get("Content-Type"); err != nil || strings.Contains(kind, "ndjson") || strings.Contains(string(b), "waits for") {
					t.Errorf("%s: %s, %v", kind, b, err)
				}
				return
			}
			var got []api.LineType
			for in := bufio.NewScanner(resp.Body); in.Scan(); {
				var l api.WaitLine
				if err := json.Unmarshal(in.Bytes(), &l); err != nil {
					t.Fatalf("%s: %v", in.Bytes(), err)
				}
				if got = append(got, l.Type); len(got) == 1 {
					f.waits <- struct{}{} // the wait ends only now
				}
				var s api.Sandbox
				switch {
				case l.Type == api.LineWaiting && (l.Waiting == nil || l.Waiting.Cause != api.WaitDisk),
					l.Type == api.LineDone && (json.Unmarshal(l.Answer, &s) != nil || s.ID != f.id),
					l.Type == api.LineError && (l.Error == nil || l.Error.Kind != api.KindExhausted || l.Error.RetryAfterMS != 1001):
					t.Errorf("%s", in.Bytes())
				}
			}
			if len(got) != len(tt.lines) || got[len(got)-1] != tt.lines[len(got)-1] {
				t.Errorf("lines %v, want %v", got, tt.lines)
			}
		})
	}
}

// TestWaitsInClient: package client has the function of a context told, and returns what it would without.
func TestWaitsInClient(t *testing.T) {
	f := &fakes{waits: make(chan struct{})}
	close(f.waits)
	c, _ := serve(t, f)
	var told []string
	ctx := api.WithWaitTold(t.Context(), func(e api.WaitingEvent) { told = append(told, e.Words()) })
	for name, tt := range map[string]struct {
		isolation string
		kind      api.Kind
		told      int
	}{
		"waits":         {"waits", "", 2},
		"in vain":       {"waits in vain", api.KindExhausted, 2},
		"does not wait": {"", "", 0},
		"fails":         {"full", api.KindExhausted, 0},
	} {
		told = nil
		s, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: tt.isolation})
		if api.KindOf(err) != tt.kind || err == nil && s.ID() != f.id || len(told) != tt.told {
			t.Errorf("%s: %v, told %q", name, err, told)
		}
		if err != nil && api.RetryAfterOf(err) == 0 {
			t.Errorf("%s: %#v has no time after which to try again", name, err)
		}
		if len(told) > 0 && told[1] != "waits for disk: 2 GiB are free; 1 wait before it" {
			t.Errorf("%s: told %q", name, told)
		}
	}
	s, err := c.Sandboxes.Get(ctx, string(f.id)) // what does not wait is as it was
	if err != nil || s.ID() != f.id {
		t.Error(err)
	}
}

// TestWaitsEnd: the end of the request ends the wait.
func TestWaitsEnd(t *testing.T) {
	f := &fakes{waits: make(chan struct{}), left: make(chan struct{})}
	c, _ := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := c.Sandboxes.Create(api.WithWaitTold(ctx, func(api.WaitingEvent) { cancel() }), api.CreateSandbox{Isolation: "waits"})
	if api.KindOf(err) != api.KindCanceled {
		t.Error(err)
	}
	<-f.left
}
