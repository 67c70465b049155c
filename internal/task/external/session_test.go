package external

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestTurnContinues: a later turn continues the session of an earlier one, in which everything was said. An agent that has forgotten it
// begins a new one with the conversation as text, once.
func TestTurnContinues(t *testing.T) {
	for how, past := range map[string]bool{"calls": false, "forgets": true} {
		t.Run(how, func(t *testing.T) {
			first := stage(t, how, api.Budget{}, &facts{}, &bytes.Buffer{})
			if rep := first.Run(t.Context(), "the first message"); rep.Stop != api.StopEnded || first.Session() != "s" {
				t.Fatalf("%+v, session %q", rep, first.Session())
			}
			d := first.desk
			d.Session, d.Past = first.Session(), "Person: the first message"
			next := newWorker(first.runtime, first.preset, first.launch, d, time.Now)
			if rep := next.Run(t.Context(), "the second message"); rep.Stop != api.StopEnded || next.Session() != "s" {
				t.Fatalf("%+v, session %q", rep, next.Session())
			}
			said, err := os.ReadFile(filepath.Join(first.launch.Env["HOME"], "said"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(said), "Person: the first message"); got != past {
				t.Errorf("the conversation as text: %v, want %v:\n%s", got, past, said)
			}
			if !strings.Contains(string(said), "the second message") {
				t.Errorf("%s", said)
			}
		})
	}
	// Within a task a session that is gone is an error, as before.
	w := stage(t, "forgets", api.Budget{}, &facts{}, &bytes.Buffer{})
	w.Run(t.Context(), "one")
	if rep := w.Run(t.Context(), "two"); rep.Stop != api.StopModel || rep.Err == nil {
		t.Errorf("%+v", rep)
	}
}
