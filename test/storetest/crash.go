package storetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// crashWriters append at the same time in the child of [Crash].
const crashWriters = 4

func crashStream(w int) api.Stream {
	return api.Stream{Kind: api.StreamTask, ID: "crash" + strconv.Itoa(w%2)}
}

// crashData is a value whose every byte follows from its numbers, so that a torn
// one is seen. It spans several pages now and then.
func crashData(w, i int) json.RawMessage {
	return fmt.Appendf(nil, `{"w":%d,"i":%d,"fill":%q}`, w, i, strings.Repeat(string(rune('a'+i%26)), i%50*300))
}

// AppendUntilKilled is the child of [Crash]: it appends events without end and
// writes a line for each one after the store has confirmed it. It returns only
// with an error.
func AppendUntilKilled(s store.Store, out io.Writer) error {
	errs := make(chan error)
	for w := range crashWriters {
		go func() {
			for i := 0; ; i++ {
				seq, err := s.AppendEvent(context.Background(), crashStream(w), api.EventOutput, began, crashData(w, i))
				if err == nil {
					_, err = fmt.Fprintf(out, "%d %d %d\n", w, i, seq)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

// Crash kills a child during its appends, several times with the same store, and then reads
// the store: every confirmed event is there, none is torn, and no number is missing. child
// returns a command, not started, that runs [AppendUntilKilled]; reopen opens its store.
func Crash(t *testing.T, child func(t *testing.T) *exec.Cmd, reopen func(t *testing.T) store.Store) {
	last := map[string]int{}
	for round := range 5 {
		confirmed := killAfter(t, child(t), 100+round*77)
		t.Run(fmt.Sprintf("after kill %d of %d confirmed", round+1, len(confirmed)), func(t *testing.T) {
			s := reopen(t)
			events := map[string][]api.Event{}
			for w := range crashWriters {
				stream := crashStream(w)
				events[stream.ID] = readAll(t, s, stream)
			}
			for id, all := range events {
				if len(all) < last[id] {
					t.Errorf("stream %s had %d events before this round, has %d", id, last[id], len(all))
				}
				last[id] = len(all)
				for _, e := range all {
					var d struct{ W, I int }
					if err := json.Unmarshal(e.Data, &d); err != nil {
						t.Fatalf("event %d of %s is torn: %v", e.Seq, id, err)
					}
					if string(e.Data) != string(crashData(d.W, d.I)) {
						t.Fatalf("event %d of %s is torn", e.Seq, id)
					}
				}
			}
			for _, c := range confirmed {
				all := events[crashStream(c[0]).ID]
				if c[2] > len(all) || string(all[c[2]-1].Data) != string(crashData(c[0], c[1])) {
					t.Fatalf("confirmed event %v is not there", c)
				}
			}
		})
	}
}

// killAfter starts the child, kills it (SIGKILL) after n confirmed events, and returns all
// confirmed events: writer, its count, number.
func killAfter(t *testing.T, cmd *exec.Cmd, n int) (confirmed [][3]int) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var c [3]int
		if k, _ := fmt.Sscan(lines.Text(), &c[0], &c[1], &c[2]); k == 3 {
			confirmed = append(confirmed, c)
		}
		if len(confirmed) == n {
			must(t, cmd.Process.Kill())
		}
	}
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if len(confirmed) < n || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended after %d events: %v: %s", len(confirmed), err, complaint.String())
	}
	return confirmed
}
