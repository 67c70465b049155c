package repo

import (
	"context"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
)

// Earlier is a task that ended with a question and is continued.
type Earlier struct {
	Task api.Task
	// Dir is its folder, with its transcript.
	Dir string
}

// Adopt makes a task the owner of a workspace of another one.
func (r *Runner) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	return r.cfg.Computers.Adopt(ctx, id, from, to)
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
		r := loop.Reply{Diagnosis: e.Task.Diagnosis, Question: e.Task.Question, Answer: w.task.Reply, Calls: w.calls(e)}
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

// calls lists what an earlier agent called. A transcript that was collected, or that
// cannot be read, leaves the list out: the files are in the workspace.
func (w *project) calls(e Earlier) string {
	f, err := os.Open(TranscriptPath(e.Dir))
	if err != nil {
		return ""
	}
	defer f.Close()
	list, err := loop.Calls(f)
	if err != nil {
		w.cfg.Logger.Warn("cannot read the transcript of a continued task", "task", e.Task.ID, "err", err)
	}
	return list
}
