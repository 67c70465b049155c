package view

import (
	"fmt"
	"io"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// lastAttempt returns the last attempt, or nil.
func lastAttempt(t api.Task) *api.Attempt {
	if len(t.Attempts) == 0 {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}

// ProgramFiles names the files of a program.
func ProgramFiles(a api.CodeArtifact) (names []string) {
	for _, f := range a.Files {
		names = append(names, f.Path)
	}
	return names
}

// Lines of a program and of its output that "task show" prints.
const (
	shownCode   = 40
	shownOutput = 10
)

// ShowProgram adds what a verified task was verified by: the program, its commands, its
// output and its checks.
func ShowProgram(w io.Writer, t api.Task) {
	at := lastAttempt(t)
	if at == nil || t.Create.Repo != nil || at.Result == nil {
		return
	}
	if at.Artifact.Compile != "" {
		fmt.Fprintf(w, "compiled with\t%s\n", human.Sanitize(at.Artifact.Compile))
	}
	fmt.Fprintf(w, "run with\t%s\n", human.Sanitize(at.Artifact.Run))
	for _, f := range at.Artifact.Files {
		block(w, f.Path, f.Content, shownCode)
	}
	block(w, "output", at.Result.Stdout, shownOutput)
	for _, f := range t.Create.Files {
		fmt.Fprintf(w, "input file\t%s (%s)\n", human.Sanitize(f.Path), human.Size(f.Size))
	}
	for _, f := range at.Result.OutputFiles {
		fmt.Fprintf(w, "output file\t%s (%s)\n", human.Sanitize(f.Path), human.Size(int64(len(f.Bytes()))))
	}
	for _, left := range at.Result.LeftOut {
		fmt.Fprintf(w, "not saved\t%s\n", human.Sanitize(left))
	}
	if at.Result.OK {
		fmt.Fprintf(w, "verified by\t%s%s\n", human.Sanitize(at.Result.Evidence(at.Artifact.Output)), bySchema(t))
	}
	for _, c := range at.Result.Checks {
		how := "passed"
		if !c.Passed {
			how = "FAILED"
		}
		fmt.Fprintf(w, "check %s\t%s\n", how, human.Sanitize(c.Name))
	}
	for _, c := range at.Result.Cautions {
		fmt.Fprintf(w, "CAUTION\tthe program uses %s\n", human.Sanitize(c.String()))
	}
}

// bySchema adds that the result is valid for the request's schema.
func bySchema(t api.Task) string {
	if len(t.Value) == 0 {
		return ""
	}
	return ", valid for the schema"
}

// block adds the first lines of a text.
func block(w io.Writer, name, text string, most int) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == most {
			fmt.Fprintf(w, "\t... %d more lines\n", len(lines)-most)
			break
		}
		head := ""
		if i == 0 {
			head = human.Sanitize(name)
		}
		fmt.Fprintf(w, "%s\t%s\n", head, human.Sanitize(strings.ReplaceAll(l, "\t", "    ")))
	}
}
