package client_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

// outage plays daemons, and what is before them, that refuse the first requests in several ways.
type outage struct {
	refusals []func(w http.ResponseWriter)
	asked    int
}

func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.asked++
	if o.asked <= len(o.refusals) {
		o.refusals[o.asked-1](w)
		return
	}
	fmt.Fprintf(w, "data: {\"seq\":1,\"type\":%q}\n\n", api.EventTaskFinished)
}

func refuse(w http.ResponseWriter) {
	e := api.Errorf(api.KindUnavailable, "node c has not reached the database for 23s")
	e.RetryAfterMS = 1
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(api.ProblemOf(e, http.StatusServiceUnavailable))
}

func noServer(w http.ResponseWriter) {
	http.Error(w, "<html>no server is available</html>", http.StatusServiceUnavailable)
}

func cutOff(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// serve returns a client of a handler.
func serve(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := client.Remote(srv.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestPatience: with patience, a stream of events outlives more refusals than without, of daemons and of a balancer without one.
func TestPatience(t *testing.T) {
	t.Parallel()
	o := &outage{refusals: []func(http.ResponseWriter){refuse, noServer, cutOff, refuse, noServer, cutOff, refuse}} // without patience six in a row end a stream
	var said []string
	ctx := client.WithPatience(t.Context(), client.Patience{For: time.Hour, Waits: func(reason error) { said = append(said, fmt.Sprint(reason)) }})
	events := 0
	for _, err := range serve(t, o).Tasks.Events(ctx, api.NewTaskID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		events++
	}
	if events != 1 || len(said) != 2 || said[0] != "node c has not reached the database for 23s" || said[1] != "<nil>" {
		t.Errorf("%d events, %q", events, said)
	}
}

// TestPatienceEnds: a request ends with its last error after the time of the patience, one that changes something at once, and one that is
// refused for another reason, too.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	o := &outage{}
	for range 100 {
		o.refusals = append(o.refusals, refuse)
	}
	c := serve(t, o)
	ctx := client.WithPatience(t.Context(), client.Patience{For: time.Millisecond})
	for _, err := range c.Tasks.Events(ctx, api.NewTaskID(), 0) {
		if api.KindOf(err) != api.KindUnavailable || err.Error() != "node c has not reached the database for 23s" || o.asked > 10 {
			t.Errorf("after %d requests: %v", o.asked, err)
		}
	}
	ctx = client.WithPatience(t.Context(), client.Patience{For: time.Hour})
	o.asked = 0
	if _, err := c.Tasks.Cancel(ctx, api.NewTaskID()); api.KindOf(err) != api.KindUnavailable || o.asked != 1 {
		t.Errorf("a change after %d requests: %v", o.asked, err)
	}
	o.asked, o.refusals[0] = 0, func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }
	if _, err := c.Tasks.Get(ctx, string(api.NewTaskID())); api.KindOf(err) != api.KindInternal || o.asked != 1 {
		t.Errorf("another refusal after %d requests: %v", o.asked, err)
	}
}

// TestPatienceForStart: a follower of the socket waits for a daemon that was killed, until the next one listens.
func TestPatienceForStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	srv := &http.Server{Handler: &outage{}}
	served := make(chan error, 1)
	ctx := client.WithPatience(t.Context(), client.Patience{For: time.Hour, Waits: func(reason error) {
		if reason == nil {
			return
		}
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Error(err)
			return
		}
		go func() { served <- srv.Serve(ln) }()
	}})
	c := client.Unix(path)
	defer c.Close()
	for _, err := range c.Tasks.Events(ctx, api.NewTaskID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	srv.Close()
	<-served
}
