package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/access"
	"hortus.dev/test/patience"
)

// keysByName has a key for every secret ACCOUNT-NUMBER.
type keysByName struct{}

func (keysByName) Get(context.Context, api.KeyID) (api.Key, error) {
	return api.Key{}, api.Errorf(api.KindUnauthenticated, "no such key")
}

func (keysByName) Verify(_ context.Context, presented string) (api.Key, error) {
	account, _, _ := strings.Cut(presented, "-")
	return api.Key{ID: api.KeyID(presented), Account: account, Role: api.RoleUser}, nil
}

// TestStreamsOfOneAccount: three accounts hold all the streams that they can get, from this machine, where
// a proxy is too. Each gets its part, is told when it has it, and another account is served; and
// what they held comes back.
func TestStreamsOfOneAccount(t *testing.T) {
	const connections = 256
	bounds := Bounds{Conns: connections}.WithDefaults()
	on, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Bounds: bounds})
	if err != nil {
		t.Fatal(err)
	}
	stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/stream" {
			<-r.Context().Done()
		}
	})
	f := &Front{
		Servers:      []Server{{Takes: Below("/"), Handler: stream, Keyed: true}},
		Authenticate: access.NewAuthenticator(keysByName{}, quota.NewRates(quota.RatesConfig{})).Authenticate,
		Rest:         bounds.Rest, Requests: quota.NewRequests(bounds.Conns),
	}
	srv := NewServer(f, false, bounds, func(net.Conn, http.ConnState) {}, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(on.Listener) }()
	t.Cleanup(func() { srv.Close(); <-served })

	var held []net.Conn
	ask := func(path, key string) (status int, retry string) {
		t.Helper()
		c, err := net.Dial("tcp", on.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience.Of(time.Minute)))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", path, key)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if resp.StatusCode != http.StatusOK {
			io.Copy(io.Discard, resp.Body)
			c.Close()
		}
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	median := func() time.Duration { // of a request of another account, on a connection of its own
		var all []time.Duration
		for range 51 {
			began := time.Now()
			if status, _ := ask("/once", "other-3"); status != http.StatusOK {
				t.Errorf("a request of another account is answered %d", status)
			}
			all = append(all, time.Since(began))
			held[len(held)-1].Close()
			held = held[:len(held)-1]
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	alone := median()
	streams := map[string]int{}
	for _, account := range []string{"a", "b", "c"} {
		for key := range 4 {
			for range connections / 4 {
				status, retry := ask("/stream", fmt.Sprintf("%s-%d", account, key))
				if status == http.StatusOK {
					streams[account]++
					continue
				}
				if status != http.StatusTooManyRequests || retry == "" {
					t.Fatalf("a stream too many is answered %d, Retry-After %q", status, retry)
				}
				break
			}
		}
	}
	if got := streams["a"]; got != connections/4 {
		t.Errorf("one account holds %d streams of %d connections", got, connections)
	}
	if all := streams["a"] + streams["b"] + streams["c"]; all < connections/2 || all > connections*3/4 {
		t.Errorf("three accounts hold %d streams of %d connections", all, connections)
	}
	beside := median()
	if t.Logf("a request of another account takes %s instead of %s: %.1f times as long", beside, alone, float64(beside)/float64(alone)); beside > 10*alone && beside > 100*time.Millisecond { // less is the load of this machine
		t.Error("another account waits for those that hold streams")
	}
	for i := range 4 {
		if status, _ := ask("/stream", "other-1"); status != http.StatusOK {
			t.Errorf("stream %d of another account is answered %d", i+1, status)
		}
	}
	if status, _ := ask("/once", "other-2"); status != http.StatusOK {
		t.Errorf("a request of another account is answered %d", status)
	}
	for _, c := range held {
		c.Close()
	}
	deadline := time.Now().Add(patience.Of(time.Minute))
	for { // the server learns of it when it reads
		if status, _ := ask("/once", "a-1"); status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("streams that were closed count still")
		}
	}
}
