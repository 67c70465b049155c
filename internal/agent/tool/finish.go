package tool

import (
	"context"
	"strings"

	"hortus.dev/internal/agent/loop"
)

const finishAbout = `Say that the work is done, as the last call. The platform then runs the gate command itself; what you say here decides nothing. Give blocked only when it cannot be done, with the reason.`

// maxSummary bounds what is kept of a model's own word, in bytes.
const maxSummary = 16 << 10

func finish() *tool {
	return &tool{name: "finish", about: finishAbout, input: fields{
		{name: "summary", kind: "string", need: true, doc: "What was changed and why, in a few sentences, for a reviewer."},
		{name: "blocked", kind: "string", doc: "Why it cannot be done; leave it out otherwise."},
	}, run: func(_ context.Context, in args) (loop.Result, error) {
		summary := strings.TrimSpace(in.str("summary"))
		blocked := strings.TrimSpace(in.str("blocked"))
		if summary == "" && blocked == "" {
			return loop.Result{}, teach("the summary is empty; say in a sentence what was changed")
		}
		short := "finished: " + oneLine(summary, 100)
		if blocked != "" {
			short = "blocked: " + oneLine(blocked, 100)
		}
		return loop.Result{
			Text: "The work ends here.", Short: short,
			Finish: &loop.Finish{Summary: clip(summary, maxSummary), Blocked: clip(blocked, maxSummary)},
		}, nil
	}}
}
