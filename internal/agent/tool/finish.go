package tool

import (
	"context"
	"strings"

	"hortus.dev/internal/agent/loop"
)

const finishAbout = `End your work. Make this your last call. The platform then runs the gate command; the result of the gate decides. Set blocked only if you cannot complete the request.`

// maxSummary bounds what is kept of a model's own word, in bytes.
const maxSummary = 16 << 10

func finish() *tool {
	return &tool{name: "finish", about: finishAbout, input: fields{
		{name: "summary", kind: "string", need: true, doc: `What you changed and why, in a few sentences for a reviewer. Example: "Fixed the off-by-one error in parse(). All 12 tests pass."`},
		{name: "blocked", kind: "string", doc: `Why you cannot complete the request. Omit it otherwise. Example: "The tests need PostgreSQL, which is not installed."`},
	}, run: func(_ context.Context, in args) (loop.Result, error) {
		summary := strings.TrimSpace(in.str("summary"))
		blocked := strings.TrimSpace(in.str("blocked"))
		if summary == "" && blocked == "" {
			return loop.Result{}, teach("the summary is empty; describe your changes in a sentence")
		}
		short := "finished: " + oneLine(summary, 100)
		if blocked != "" {
			short = "blocked: " + oneLine(blocked, 100)
		}
		return loop.Result{
			Text: "Your work has ended.", Short: short,
			Finish: &loop.Finish{Summary: clip(summary, maxSummary), Blocked: clip(blocked, maxSummary)},
		}, nil
	}}
}
