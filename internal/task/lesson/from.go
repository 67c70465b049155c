package lesson

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"hortus.dev/api"
	"hortus.dev/internal/platform/redact"
)

// maxSaid bounds what a lesson has of a model's own words, in bytes.
const maxSaid = 1 << 10

// From returns what a task teaches: each failure that it had and overcame. A task that was not verified, that
// repeats another, or that had no failure teaches nothing. patch is what a task on a repository changed.
func From(t api.Task, patch string) []api.Lesson {
	if t.Outcome != api.OutcomeVerified || t.Create.Replay != nil || strings.HasPrefix(t.Model, "replay:") {
		return nil
	}
	if t.Repo != nil {
		return fromRepository(t, patch)
	}
	return fromProgram(t)
}

// fromProgram takes each attempt that failed and was followed by one that did not fail in the same way.
func fromProgram(t api.Task) (out []api.Lesson) {
	for i, a := range t.Attempts {
		if i+1 == len(t.Attempts) || a.Result == nil || a.Result.OK {
			continue
		}
		next := t.Attempts[i+1]
		f := Of(Output(*a.Result))
		if f.Text == "" || next.Result == nil || !next.Result.OK && Of(Output(*next.Result)).Fingerprint == f.Fingerprint {
			continue
		}
		said := ""
		if a.Diagnosis != nil {
			said = a.Diagnosis.Cause
		}
		out = add(out, t, f, said, changes(a.Artifact, next.Artifact))
	}
	return out
}

// fromRepository takes each gate that failed: the last one passed.
func fromRepository(t api.Task, patch string) (out []api.Lesson) {
	if patch == "" {
		return nil
	}
	gates := []*api.Gate{t.Repo.Before}
	for _, r := range t.Repo.Rounds {
		gates = append(gates, r.Gate)
	}
	for _, g := range gates {
		if g != nil && !g.Passed {
			out = add(out, t, Of(g.Output), t.Repo.Summary, patch)
		}
	}
	return out
}

// Output is the text of a run that its failure is known by.
func Output(r api.ExecutionResult) string {
	return r.Stdout + "\n" + r.Stderr + "\n" + r.Detail
}

func add(out []api.Lesson, t api.Task, f Failure, said, patch string) []api.Lesson {
	said = cut(strings.TrimSpace(said), maxSaid)
	fix, _ := new(redact.Redactor).Redact(strings.TrimSpace(said + "\n\n" + patch))
	if f.Text == "" || fix == "" || slices.ContainsFunc(out, func(l api.Lesson) bool { return l.Fingerprint == f.Fingerprint }) {
		return out
	}
	return append(out, api.Lesson{
		Account: t.Account, Scope: Scope(t), Fingerprint: f.Fingerprint, Failure: f.Text, Fix: cut(fix, api.MaxLessonFix), Task: t.ID,
	})
}

// changes is the difference of two versions of a program.
func changes(a, b api.CodeArtifact) string {
	var s strings.Builder
	for _, c := range []struct{ name, a, b string }{{"install", a.Install, b.Install}, {"compile", a.Compile, b.Compile}, {"run", a.Run, b.Run}} {
		if c.a != c.b {
			s.WriteString(c.name + " command: " + cmp.Or(c.a, "none") + " -> " + cmp.Or(c.b, "none") + "\n")
		}
	}
	content := func(of api.CodeArtifact, path string) string {
		for _, f := range of.Files {
			if f.Path == path {
				return f.Content
			}
		}
		return ""
	}
	for _, f := range slices.Concat(a.Files, b.Files) {
		from, to := content(a, f.Path), content(b, f.Path)
		if from != to && !strings.Contains(s.String(), "--- a/"+f.Path+"\n") {
			s.WriteString(udiff.Unified("a/"+f.Path, "b/"+f.Path, from, to))
		}
	}
	return s.String()
}

// cut shortens a text to a number of bytes, with a mark.
func cut(s string, most int) string {
	const mark = "\n[cut]"
	s = strings.ToValidUTF8(s, "")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(mark)], "") + mark
}
