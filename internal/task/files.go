package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
)

// recorder keeps what the pipeline of one task did.
type recorder struct {
	store Store
	dir   string
	task  *api.Task
	room  func(need int64) error
	// left reports whether another owner continues the task: what it continues is as it was stored.
	left func() bool
}

func (r *recorder) Plan(ctx context.Context, plan api.ExecutionPlan) error {
	if r.left() {
		return nil
	}
	r.task.Plan = &plan
	return r.store.UpdateTask(ctx, *r.task)
}

func (r *recorder) Attempt(ctx context.Context, a api.Attempt) error {
	if r.left() {
		return nil
	}
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
		return &wholeFile{File: f, room: r.room}, nil
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

// wholeFile is the whole output of one stream, or its beginning and a note if the disk or the
// account has no space for the rest.
type wholeFile struct {
	*os.File
	room func(need int64) error
	full bool
}

// Write implements io.Writer. Output without space is discarded, which is no error: the program
// continues, and its result has the end of the output.
func (f *wholeFile) Write(p []byte) (int, error) {
	if f.full {
		return len(p), nil
	}
	err := f.room(int64(len(p)))
	if err == nil {
		if _, err = f.File.Write(p); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return 0, err
		}
	}
	if err != nil {
		f.full = true
		_, _ = f.WriteString(discarded(err)) // a full disk has no space for it either
	}
	return len(p), nil
}

// discarded is the note at the end of output that is not complete.
func discarded(why error) string {
	return fmt.Sprintf("\n[hortus: the rest of the output was discarded: %v]\n", why)
}

// Path is where it can be read.
func (f *wholeFile) Path() string { return f.Name() }

func outputName(attempt int, stream string) string {
	return fmt.Sprintf("attempt-%d.%s", attempt, stream)
}

// folders has one folder for each task.
type folders struct{ root string }

// of is the folder of a task.
func (d folders) of(id api.TaskID) string { return filepath.Join(d.root, string(id)) }

// Output opens the whole output of one attempt, up to 16 MiB of it, with a mark
// at the end where there was more; stream is "stdout" or "stderr". While the
// attempt runs it holds what has come so far. The caller closes it.
func (e *Engine) Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error) {
	if stream != "stdout" && stream != "stderr" {
		return nil, api.Errorf(api.KindInvalid, "invalid stream %.64q: use stdout or stderr", stream)
	}
	t, err := e.cfg.Store.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	if attempt < 1 || attempt > api.MaxAttempts {
		return nil, api.Errorf(api.KindNotFound, "task %s has no attempt %d", t.ID, attempt)
	}
	f, err := os.Open(filepath.Join(e.folders.of(t.ID), outputName(attempt, stream)))
	if errors.Is(err, fs.ErrNotExist) {
		missing := api.Errorf(api.KindNotFound, "task %s has no %s of attempt %d", t.ID, stream, attempt)
		for _, a := range t.Attempts {
			if a.N == attempt && a.Result != nil {
				missing = missing.WithHint("it was garbage collected; its beginning and end: hortus task show %s --json", t.ID)
			}
		}
		return nil, e.away(ctx, t, "the output", missing)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the output of task %s: %w", t.ID, err)
	}
	return f, nil
}

// headLines is how many lines of a file a model sees at most.
const headLines = 10

// head is the beginning of a text, for a model; empty for what is no text.
func head(content []byte) string {
	if !utf8.Valid(content) || slices.Contains(content, 0) {
		return ""
	}
	s := string(content[:min(len(content), api.MaxInputHead)])
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	if lines := strings.SplitAfterN(s, "\n", headLines+1); len(lines) > headLines {
		s = strings.Join(lines[:headLines], "")
	}
	return s
}

// keepInputs writes the files of a request into the task's folder, and gives what the
// record has of them. Their names there are Hortus' own.
func (d folders) keepInputs(id api.TaskID, files []api.InputFile) ([]api.InputFile, error) {
	if len(files) == 0 {
		return nil, nil
	}
	fail := func(err error) ([]api.InputFile, error) {
		return nil, api.Errorf(api.KindInternal, "store the given files of a task: %w", err)
	}
	dir := d.of(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	kept := make([]api.InputFile, len(files))
	for i, f := range files {
		if err := os.WriteFile(filepath.Join(dir, inputName(i)), f.Content, 0o600); err != nil {
			return fail(err)
		}
		kept[i] = api.InputFile{Path: f.Path, Size: int64(len(f.Content)), Head: head(f.Content)}
	}
	return kept, nil
}

func inputName(i int) string { return fmt.Sprintf("input-%d", i) }

// inputsOf are the files of an earlier task, with their content.
func (d folders) inputsOf(old api.Task) ([]api.InputFile, error) {
	if len(old.Create.Files) == 0 {
		return nil, nil
	}
	files := slices.Clone(old.Create.Files)
	for i := range files {
		var err error
		if files[i].Content, err = os.ReadFile(filepath.Join(d.of(old.ID), inputName(i))); err != nil {
			return nil, api.Errorf(api.KindConflict, "the file %s of task %s no longer exists: %w", files[i].Path, old.ID, err).
				WithHint("Start a new task with the file.")
		}
	}
	return files, nil
}

// inputs are the files of a task as its attempts get them.
func (d folders) inputs(t api.Task) []agent.Input {
	var in []agent.Input
	for i, f := range t.Create.Files {
		path := filepath.Join(d.of(t.ID), inputName(i))
		in = append(in, agent.Input{Path: f.Path, Read: func() ([]byte, error) {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, api.Errorf(api.KindInternal, "read input file %s of task %s: %w", f.Path, t.ID, err)
			}
			return b, nil
		}})
	}
	return in
}
