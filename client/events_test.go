package client_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
)

// TestEventsCutInTheMiddle has connections break at each byte of an event: what is half
// there is requested again, and none is lost or told twice.
func TestEventsCutInTheMiddle(t *testing.T) {
	const first = "id: 1\nevent: x\ndata: {\"seq\":1,\"type\":\"task.started\"}\n\n"
	last := "id: 2\nevent: x\ndata: {\"seq\":2,\"type\":\"" + string(api.EventTaskFinished) + "\"}\n\n"
	cuts := 0
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Query().Get("after") == "1" { // it is there again
			fmt.Fprint(w, last)
			return
		}
		fmt.Fprint(w, first, last[:cuts])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	c := client.Unix(path)
	defer func() {
		c.Close()
		srv.Close()
		<-done
	}()
	for cuts = range len(last) {
		var seen []string
		for e, err := range c.Tasks.Events(t.Context(), api.NewTaskID(), 0) {
			if err != nil {
				t.Fatalf("cut after %d bytes, %q: %v", cuts, last[:cuts], err)
			}
			seen = append(seen, fmt.Sprint(e.Seq))
		}
		if got := strings.Join(seen, " "); got != "1 2" {
			t.Errorf("cut after %d bytes, %q: the events are %s", cuts, last[:cuts], got)
		}
	}
}
