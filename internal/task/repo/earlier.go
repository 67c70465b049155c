package repo

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Earlier is a task that ended with a question and is continued.
type EarlierTask struct {
	Task api.Task
	// Dir is its folder, with its transcript.
	Dir string
}

// Adopt makes a task the owner of a workspace of another one.
func (r *Runner) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	return r.cfg.Sandboxes.Adopt(ctx, id, from, to)
}

// last is the result that is continued; nil for a task that begins.
func (w *project) last() *api.RepoResult {
	if n := len(w.earlier); n > 0 {
		return w.earlier[n-1].Task.Repo
	}
	return w.turn.Before()
}

// replies are the questions with their answers, and what was done before each.
func (w *project) replies() []loop.Reply {
	var out []loop.Reply
	for i, e := range w.earlier {
		r := loop.Reply{Diagnosis: e.Task.Diagnosis, Question: e.Task.Question, Answer: w.task.Reply, Calls: w.callsIn(TranscriptPath(e.Dir))}
		if e.Task.Repo != nil {
			r.Summary = e.Task.Repo.Summary
		}
		if i+1 < len(w.earlier) {
			r.Answer = w.earlier[i+1].Task.Reply
		}
		out = append(out, r)
	}
	return out
}
