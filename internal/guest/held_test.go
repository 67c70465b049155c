//go:build linux

package guest

import (
	"bytes"
	"fmt"
	"testing"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/birth"
)

// TestQuietKeepsOutput: after its stream was ended, a command that writes more than is
// kept waits for the client to reconnect. Nothing is lost or duplicated. If no client
// reconnects, the command continues after a while.
func TestQuietKeepsOutput(t *testing.T) {
	g := startStdio(t, nil)
	g.mustGo(t)
	const last = 600_000
	var want bytes.Buffer
	for i := range last {
		fmt.Fprintln(&want, i+1)
	}
	s, err := g.client.Start(t.Context(), shell(fmt.Sprintf("seq 1 %d", last)), envd.StartOptions{ExecID: "seq"})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	at := int64(0)
	for round := 0; ; round++ {
		ended := false
		for n := 0; ; n++ {
			if round < 4 && n == 5 {
				g.mustQuiet(t)
			}
			ev, err := s.Next()
			if err != nil {
				break
			}
			if ev.Data != nil {
				got.Write(ev.Data.Stdout)
				at += int64(len(ev.Data.Stdout))
			}
			if ev.End != nil {
				ended = true
				break
			}
		}
		s.Close()
		if ended {
			break
		}
		if err := g.host.On(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err = g.client.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: "seq", Offset: at}); err != nil {
			t.Fatal(err)
		}
		first, err := s.Next()
		if err != nil || first.Start == nil || first.Start.Offset != at {
			t.Fatalf("back at %d: %+v, %v", at, first, err)
		}
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("read %d bytes; %d were written, or others", got.Len(), want.Len())
	}
}

// A forked child does not keep output for its parent's clients, who do not reconnect to it.
func TestAnotherSelfWaitsForNobody(t *testing.T) {
	g := startStdio(t, nil)
	g.mustGo(t)
	g.begin(t, "seq", "echo first; seq 1 600000; touch done", envd.StartOptions{})
	g.mustQuiet(t)
	if err := g.host.Become(t.Context(), birth.Self{Sandbox: "another", Hostname: "b", Seed: make([]byte, 16), Nonce: "n"}); err != nil {
		t.Fatal(err)
	}
	g.mustRun(t, "while [ ! -e done ]; do sleep 0.01; done")
}
