//go:build linux

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// counted returns the output of seq.
func counted(last int) []byte {
	var b bytes.Buffer
	for i := range last {
		fmt.Fprintln(&b, i+1)
	}
	return b.Bytes()
}

// readSome reads a stream until most bytes of output have come, or to its end.
func readSome(t *testing.T, s *envd.ProcessStream, into *bytes.Buffer, most int) (ended bool) {
	t.Helper()
	for into.Len() < most {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", into.Len(), err)
		}
		if ev.Data != nil {
			into.Write(ev.Data.Stdout)
		}
	}
	return false
}

// TestKeepsForAHostThatDied: if the host's stream breaks, the command waits when the log is
// full, as long as no host connects. A client that continues at its offset loses nothing
// and gets nothing twice. The control is a stream not used for the record, for which the
// command does not wait.
func TestKeepsForAHostThatDied(t *testing.T) {
	const last = 600_000
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			g := startStdio(t, nil)
			g.mustGo(t)
			s, err := g.client.Start(t.Context(), shell(fmt.Sprintf("seq 1 %d; touch over; exit 6", last)), envd.StartOptions{ExecID: "seq", Keep: keep})
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			readSome(t, s, &got, 100_000)
			s.Close()
			if !keep {
				g.mustRun(t, "until [ -e over ]; do sleep 0.01; done")
				return
			}
			// The next host reads on for the record, and would read all of it.
			host, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "seq", Keep: true})
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			if first, err := host.Next(); err != nil || first.Start == nil {
				t.Fatalf("%+v, %v", first, err)
			}
			read := make(chan struct{})
			go func() {
				defer close(read)
				for {
					if _, err := host.Next(); err != nil {
						return
					}
				}
			}()
			// It is still waiting for the client, who is late.
			g.mustRun(t, "[ ! -e over ]")
			c, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "seq", Offset: int64(got.Len())})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if first, err := c.Next(); err != nil || first.Start == nil || first.Start.Offset != int64(got.Len()) {
				t.Fatalf("back at %d: %+v, %v", got.Len(), first, err)
			}
			if !readSome(t, c, &got, 1<<30) || !bytes.Equal(got.Bytes(), counted(last)) {
				t.Errorf("read %d bytes; %d were written, or others", got.Len(), len(counted(last)))
			}
			<-read
		})
	}
}

// TestKeepsForNobodyForLong: after a host has reconnected, a command waits for a client only
// for a limited time. Without a host it continues to wait.
func TestKeepsForNobodyForLong(t *testing.T) {
	tier.Soak(t) // it waits ten seconds, as a guest does
	g := startStdio(t, nil)
	g.mustGo(t)
	s, err := g.client.Start(t.Context(), shell("seq 1 600000; touch over"), envd.StartOptions{ExecID: "seq", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	host, err := g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "seq", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	began := time.Now()
	for err == nil {
		_, err = host.Next()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited > patience.Of(time.Minute) {
		t.Errorf("it waited for %s", waited)
	}
}
