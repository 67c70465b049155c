package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
)

// recorder keeps what the pipeline of one task did.
type recorder struct {
	store Store
	dir   string
	task  *api.Task
}

func (r *recorder) Plan(ctx context.Context, plan api.ExecutionPlan) error {
	r.task.Plan = &plan
	return r.store.UpdateTask(ctx, *r.task)
}

func (r *recorder) Attempt(ctx context.Context, a api.Attempt) error {
	return r.store.PutAttempt(ctx, r.task.ID, a)
}

// Output makes the files of one attempt. Their names are Hortus' own: nothing of
// a path comes from a program or a model.
func (r *recorder) Output(attempt int) (agent.Whole, agent.Whole, error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, nil, api.Errorf(api.KindInternal, "create the directory for the output of a task: %w", err)
	}
	open := func(stream string) (*wholeFile, error) {
		name := filepath.Join(r.dir, outputName(attempt, stream))
		// The attempt may have begun before, in a daemon that died.
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, api.Errorf(api.KindInternal, "remove the output of attempt %d: %w", attempt, err)
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "open the file for the output of attempt %d: %w", attempt, err)
		}
		return &wholeFile{f}, nil
	}
	stdout, err := open("stdout")
	if err != nil {
		return nil, nil, err
	}
	stderr, err := open("stderr")
	if err != nil {
		stdout.Close()
		return nil, nil, err
	}
	return stdout, stderr, nil
}

// wholeFile is the whole output of one stream.
type wholeFile struct{ *os.File }

// Path is where it can be read.
func (f *wholeFile) Path() string { return f.Name() }

func outputName(attempt int, stream string) string {
	return fmt.Sprintf("attempt-%d.%s", attempt, stream)
}

func (e *Engine) dir(id api.TaskID) string { return filepath.Join(e.cfg.Dir, string(id)) }

// Output opens the whole output of one attempt, up to 16 MiB of it, with a mark
// at the end where there was more; stream is "stdout" or "stderr". While the
// attempt runs it holds what has come so far. The caller closes it.
func (e *Engine) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	if stream != "stdout" && stream != "stderr" {
		return nil, api.Errorf(api.KindInvalid, "invalid stream %q: use stdout or stderr", clip(stream))
	}
	t, err := e.cfg.Store.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	if attempt < 1 || attempt > api.MaxAttempts {
		return nil, api.Errorf(api.KindNotFound, "task %s has no attempt %d", t.ID, attempt)
	}
	f, err := os.Open(filepath.Join(e.dir(t.ID), outputName(attempt, stream)))
	if errors.Is(err, fs.ErrNotExist) {
		e := api.Errorf(api.KindNotFound, "task %s has no %s of attempt %d", t.ID, stream, attempt)
		for _, a := range t.Attempts {
			if a.N == attempt && a.Result != nil {
				e = e.WithHint("it was garbage collected; its beginning and end: hortus task show %s --json", t.ID)
			}
		}
		return nil, e
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the output of task %s: %w", t.ID, err)
	}
	return f, nil
}
