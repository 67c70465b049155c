package task

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/agent/artifact"
)

// checkInputs refuses files that cannot be put into a program's directory.
func checkInputs(req api.CreateTask) error {
	if len(req.Files) > api.MaxInputFiles {
		return api.Errorf(api.KindInvalid, "%d files are given; the maximum is %d", len(req.Files), api.MaxInputFiles)
	}
	if len(req.Files) > 0 && req.Repo != nil {
		return api.Errorf(api.KindInvalid, "files are given with a request on a repository").WithHint("Commit them to the repository.")
	}
	total := 0
	var names []string
	if req.Artifact != nil {
		for _, f := range req.Artifact.Files {
			names = append(names, f.Path)
		}
	}
	for _, f := range req.Files {
		if err := artifact.Path(f.Path); err != nil {
			return api.Errorf(api.KindInvalid, "input file: %w", err)
		}
		for _, other := range names {
			if f.Path == other || strings.HasPrefix(f.Path, other+"/") || strings.HasPrefix(other, f.Path+"/") {
				return api.Errorf(api.KindInvalid, "the given files %s and %s conflict", f.Path, other).WithHint("Rename one of them.")
			}
		}
		names = append(names, f.Path)
		total += len(f.Content)
	}
	if total > api.MaxInputBytes {
		return api.Errorf(api.KindInvalid, "the given files have %d bytes; the maximum is %d", total, api.MaxInputBytes).
			WithHint("For larger files, use a sandbox: hortus sandbox create, hortus sandbox cp.")
	}
	return nil
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
func (e *Engine) keepInputs(id api.TaskID, files []api.InputFile) ([]api.InputFile, error) {
	if len(files) == 0 {
		return nil, nil
	}
	fail := func(err error) ([]api.InputFile, error) {
		return nil, api.Errorf(api.KindInternal, "store the given files of a task: %w", err)
	}
	dir := e.dir(id)
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

// givenAgain is the files of an earlier task, with their content.
func (e *Engine) givenAgain(old api.Task) ([]api.InputFile, error) {
	if len(old.Create.Files) == 0 {
		return nil, nil
	}
	files := slices.Clone(old.Create.Files)
	for i := range files {
		var err error
		if files[i].Content, err = os.ReadFile(filepath.Join(e.dir(old.ID), inputName(i))); err != nil {
			return nil, api.Errorf(api.KindConflict, "the file %s of task %s no longer exists: %w", files[i].Path, old.ID, err).
				WithHint("Start a new task with the file.")
		}
	}
	return files, nil
}

// inputs are the files of a task as its attempts get them.
func (e *Engine) inputs(t api.Task) []agent.Input {
	var in []agent.Input
	for i, f := range t.Create.Files {
		path := filepath.Join(e.dir(t.ID), inputName(i))
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
