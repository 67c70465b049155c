package envd_test

import (
	"bufio"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
)

// sleeper is a sandbox that is paused and wakes when it is requested.
func sleeper(f *fakes) api.SandboxID {
	id := f.add(api.SandboxPaused)
	f.change(id, func(b *api.Sandbox) { b.AutoResume = true })
	return id
}

// TestOneWakeForMany holds requests while the sandbox wakes.
func TestOneWakeForMany(t *testing.T) {
	f, _ := newFakes()
	f.guest = answers(nil, ok204)
	f.port = func(_ int, c netConn) { answers(nil, ok204)(c) }
	id := sleeper(f)
	asked, go_ := make(chan struct{}), make(chan struct{})
	f.wake = func() error { close(asked); <-go_; return nil }
	addr := serve(t, f)
	const n = 20
	var served atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			h := headers(id)
			if i%2 == 0 {
				h["E2b-Sandbox-Port"] = "3000"
			}
			if got := (ask{path: "/health", header: h}).to(t, addr); got.status == http.StatusNoContent {
				served.Add(1)
			} else {
				t.Errorf("%+v", got)
			}
		})
	}
	<-asked
	if served.Load() != 0 {
		t.Error("one was served by a sandbox that sleeps")
	}
	close(go_)
	wg.Wait()
	if f.woken != 1 || served.Load() != n {
		t.Errorf("woken %d times for %d of %d", f.woken, served.Load(), n)
	}
}

// TestWakeOutlivesItsFirst: the client that began it leaves.
func TestWakeOutlivesItsFirst(t *testing.T) {
	f, _ := newFakes()
	f.guest = answers(nil, ok204)
	id := sleeper(f)
	asked, go_ := make(chan struct{}), make(chan struct{})
	f.wake = func() error { close(asked); <-go_; return nil }
	addr := serve(t, f)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
		req.Header.Set("E2b-Sandbox-Id", string(id))
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Error("it was answered")
		}
	}()
	<-asked
	done := make(chan answer)
	go func() { done <- ask{path: "/health", header: headers(id)}.to(t, addr) }()
	leave()
	<-left
	close(go_)
	if got := <-done; got.status != http.StatusNoContent || f.woken != 1 {
		t.Errorf("%+v, woken %d times", got, f.woken)
	}
}

func TestNoWake(t *testing.T) {
	f, _ := newFakes()
	f.guest = answers(nil, ok204)
	addr := serve(t, f)
	plain := f.add(api.SandboxPaused) // which does not want it
	wants := sleeper(f)
	for name, a := range map[string]ask{
		"not wanted":    {path: "/health", header: headers(plain)},
		"without token": {path: "/metrics", header: headers(wants, "X-Access-Token", "")},
		"wrong token":   {path: "/metrics", header: headers(wants, "X-Access-Token", "x")},
		"no such path":  {path: "/init", header: headers(wants)},
	} {
		if got := a.to(t, addr); got.status < 400 || f.woken != 0 {
			t.Errorf("%s: %+v, woken %d times", name, got, f.woken)
		}
	}
	f.change(wants, func(b *api.Sandbox) { b.PrivateTraffic = true })
	if got := (ask{path: "/", header: headers(wants, "E2b-Sandbox-Port", "3000")}).to(t, addr); got.status != http.StatusForbidden || f.woken != 0 {
		t.Errorf("private: %+v, woken %d times", got, f.woken)
	}
	// One that cannot be woken is gone for its clients, and is tried again.
	f.wake = func() error { return api.Errorf(api.KindUnavailable, "the disk is broken") }
	for n := 1; n < 3; n++ {
		if got := (ask{path: "/health", header: headers(wants)}).to(t, addr); got.status != http.StatusBadGateway || f.woken != n {
			t.Errorf("broken: %+v, woken %d times", got, f.woken)
		}
	}
}

// TestCrowd: beyond a bound those who come are sent away, not held.
func TestCrowd(t *testing.T) {
	f, _ := newFakes()
	f.guest = answers(nil, ok204)
	id := sleeper(f)
	asked, go_ := make(chan struct{}), make(chan struct{})
	f.wake = func() error { close(asked); <-go_; return nil }
	addr := serve(t, f)
	const n = 1 + 128 + 10
	status := make(chan int, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			c := dial(t, addr)
			defer c.Close()
			c.Write([]byte("GET /health HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: " + string(id) + "\r\nConnection: close\r\n\r\n"))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			status <- resp.StatusCode
		})
	}
	<-asked
	for range 10 { // those who are sent away are so before anything else ends
		if s := <-status; s != http.StatusTooManyRequests {
			t.Errorf("answered %d", s)
		}
	}
	close(go_)
	wg.Wait()
	close(status)
	for s := range status {
		if s != http.StatusNoContent {
			t.Errorf("answered %d", s)
		}
	}
}
