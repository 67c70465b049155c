package loop_test

import (
	"bytes"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/replay"
)

// A recorded run is repeated byte for byte, its failed tries, its malformed calls
// and its summary included.
func TestReplay(t *testing.T) {
	each(t, `
-- overloaded --
status: 529

busy
-- one --
say: I look.
call: view
also: view {"path": 7}

{"path": "a.txt"}
-- half --
last: must be a string
call: shell

{"command":
-- run --
call: shell

{"command": "make"}
-- end --
last: ran make
call: finish

{"summary": "ok"}
-- again --
call: finish

{"summary": "again"}
`, func(t *testing.T, m model.Model, _ *requests) {
		var tape bytes.Buffer
		rec, err := replay.NewRecorder(replay.RecorderConfig{W: &tape})
		if err != nil {
			t.Fatal(err)
		}
		brief := loop.Brief{Request: "Go.", Gate: "make", Mark: "mark-of-the-task", Guidance: []api.Document{{Name: "AGENTS.md", Text: "Be kind."}}}
		run := func(m model.Model) *work {
			w := newWork(named{m, "m"}, nil)
			for _, text := range []string{brief.Message(), loop.GateFailed(api.Gate{Command: "make", Output: "no\n"}, 1, 2, true)} {
				if rep := w.Run(t.Context(), text); rep.Stop != api.StopFinished {
					t.Fatalf("%+v", rep)
				}
			}
			return w
		}
		first := run(rec.Wrap(patient(m)))
		tape2, err := replay.Parse(bytes.NewReader(tape.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		second := run(replay.NewPlayer(replay.PlayerConfig{Recording: tape2, Name: "m"}))
		if !bytes.Equal(first.script.Bytes(), second.script.Bytes()) {
			t.Errorf("recorded\n%s\nreplayed\n%s", first.script.Bytes(), second.script.Bytes())
		}
		if a, b := of[api.ModelRetryEvent](first.facts), of[api.ModelRetryEvent](second.facts); len(a) != 2 || len(a) != len(b) {
			t.Errorf("%+v, %+v", a, b)
		}
		first.entries(t)
	})
}
