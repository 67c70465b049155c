package repo

import (
	"os"

	"hortus.dev/internal/agent/loop"
)

// account returns what the candidates that continue the work of one are told, after what that one was told itself. What its agent
// called is read when it is needed.
func (e *candidate) account() []earlierAttempt {
	a := earlierAttempt{transcript: TranscriptPath(e.dir), Attempt: loop.Attempt{Summary: e.res.Summary, Diagnosis: e.end.Diagnosis}}
	if n := len(e.res.Rounds); n > 0 {
		switch r := e.res.Rounds[n-1]; {
		case r.Gate != nil && !r.Gate.Passed:
			a.Gate = r.Gate
		case r.Original != nil && !r.Original.Passed:
			a.Gate, a.Original = r.Original, true
		}
	}
	return append(e.continues[:len(e.continues):len(e.continues)], a)
}

// earlierAttempt is an attempt whose work is continued.
type earlierAttempt struct {
	loop.Attempt
	transcript string
}

// attempts are the earlier attempts for the first message, with the lists of their calls.
func (w *attempt) attempts() (out []loop.Attempt) {
	for _, a := range w.continues {
		a.Calls = w.callsIn(a.transcript)
		out = append(out, a.Attempt)
	}
	return out
}

// callsIn lists what an agent called. A transcript that was collected, or that cannot be read, leaves the list out: the files are
// in the workspace.
func (w *project) callsIn(transcript string) string {
	f, err := os.Open(transcript)
	if err != nil {
		return ""
	}
	defer f.Close()
	list, err := loop.Calls(f)
	if err != nil {
		w.cfg.Logger.Warn("cannot read the transcript of earlier work", "task", w.task.ID, "transcript", transcript, "err", err)
	}
	return list
}
