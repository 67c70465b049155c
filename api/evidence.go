package api

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Evidence says in a few words what a gate that passed or failed is known by: the tests
// that ran, or its exit code alone.
func (g Gate) Evidence() string {
	t := g.Tests
	if t == nil {
		return "exit code only, the command writes no test report"
	}
	if t.Why != "" {
		return t.Why
	}
	parts := []string{fmt.Sprintf("%s passed (%s)", counted(t.Passed, "test"), t.Runner)}
	switch {
	case g.Passed && t.OldCount > 0:
		parts = append(parts, fmt.Sprintf("%d failed before the work too", t.OldCount))
	case t.Failed > 0:
		parts = append(parts, fmt.Sprintf("%d failed: %s", t.Failed, firstOf(t.FailedTests)))
	}
	if n := len(t.Unstable); n > 0 {
		parts = append(parts, fmt.Sprintf("%d unstable", n))
	}
	if t.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", t.Skipped))
	}
	switch {
	case t.MissingCount > 0 && g.Exit.Code == 0:
		parts = append(parts, fmt.Sprintf("%d of %d earlier tests did not run: %s", t.MissingCount, t.Before, firstOf(t.Missing)))
	case t.Before > 0 && t.MissingCount == 0:
		parts = append(parts, fmt.Sprintf("including all %d earlier tests", t.Before))
	}
	return strings.Join(parts, ", ")
}

// firstOf lists the first few names.
func firstOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", ..."
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// String is what a person reads of a caution.
func (c Caution) String() string {
	if c.Path == "" {
		return c.Uses
	}
	if c.Line == 0 {
		return fmt.Sprintf("%s (%s)", c.Uses, c.Path)
	}
	return fmt.Sprintf("%s (%s:%d)", c.Uses, c.Path, c.Line)
}

// LargeFile is the size in bytes above which an added file is named as large.
const LargeFile = 1 << 20

// Bulky names the added files that are large or binary, each with its size, as far as they are listed.
func (r RepoResult) Bulky() (out []string) {
	for _, f := range r.Files {
		if f.Status != "added" || !f.Binary && f.Size <= LargeFile {
			continue
		}
		size := fmt.Sprintf("%d bytes", f.Size)
		if f.Size >= LargeFile {
			size = fmt.Sprintf("%.1f MiB", float64(f.Size)/LargeFile)
		}
		if f.Binary {
			size = "binary, " + size
		}
		out = append(out, fmt.Sprintf("%s (%s)", f.Path, size))
	}
	return out
}

// gates are the gates of the last round.
func (r RepoResult) gates() (out []*Gate) {
	if n := len(r.Rounds); n > 0 {
		for _, g := range []*Gate{r.Rounds[n-1].Gate, r.Rounds[n-1].Original} {
			if g != nil && g.Tests != nil {
				out = append(out, g)
			}
		}
	}
	return out
}

// OldFailures names tests of a gate that passed which failed before the work and still fail, and says how many there are.
func (r RepoResult) OldFailures() (names []string, count int) {
	for _, g := range r.gates() { // the change may have removed such a test
		if !g.Passed || !g.Tests.OldOnly {
			continue
		}
		count = max(count, g.Tests.OldCount)
		for _, name := range g.Tests.Old {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, max(count, len(names))
}

// Unstable lists the unstable tests of the last gates.
func (r RepoResult) Unstable() (out []UnstableTest) {
	for _, g := range r.gates() {
		for _, t := range g.Tests.Unstable {
			if !slices.ContainsFunc(out, func(o UnstableTest) bool { return o.Name == t.Name }) {
				out = append(out, t)
			}
		}
	}
	return out
}

// Says is what a person reads of an unstable test beside its name.
func (t UnstableTest) Says() string {
	s := fmt.Sprintf("unstable: passed %d of %d runs", t.Passed, t.Runs)
	if t.Before {
		s += ", unstable before the work too"
	}
	return s
}

// Untested says that no test of the gate touches the change, as far as Hortus has seen:
// the gate passes without it too. A change of documents alone is never untested.
func (r RepoResult) Untested() bool {
	if r.Before == nil || !r.Before.Passed || len(r.Rounds) == 0 {
		return false
	}
	code := func(f FileChange) bool { return !f.Test && !IsDocument(f.Path) }
	if !slices.ContainsFunc(r.Files, code) {
		return false
	}
	last := r.Rounds[len(r.Rounds)-1]
	if last.Gate == nil || !last.Gate.Passed {
		return false
	}
	return last.Without == nil || last.Without.Passed
}

// UnreadNote is what a person must know of a result that is [RepoResult.Unread].
const UnreadNote = "passes the tests but was not reviewed by a language model"

// Unread reports whether no language model has read the change: the offline model
// tried edits until the tests passed.
func (r RepoResult) Unread() bool {
	n := len(r.Rounds)
	return n > 0 && r.Head != "" && r.Rounds[n-1].Model == "offline"
}

// Taken reports whether the result was delivered, or applied by a person.
func (r RepoResult) Taken() bool {
	return r.Applied || r.Delivery != nil && r.Delivery.Pushed != "" ||
		slices.ContainsFunc(r.Repositories, func(m RepositoryResult) bool { return m.Delivery != nil && m.Delivery.Pushed != "" })
}

// CautionCount counts the cautions of the verdict, which a person should look at before the result is taken.
func (r RepoResult) CautionCount() int {
	n := len(r.Cautions) + len(r.Bulky()) + len(r.Unstable())
	if _, old := r.OldFailures(); old > 0 {
		n++
	}
	if r.Untested() {
		n++
	}
	return n
}

// IsDocument reports whether a file of that name is prose, which no test could touch.
func IsDocument(name string) bool {
	return slices.Contains([]string{".md", ".txt", ".rst", ".adoc"}, strings.ToLower(path.Ext(name)))
}

// Evidence says in a few words what a program that ran is known by: its exit code, what
// it wrote, and its checks.
func (r ExecutionResult) Evidence(kind OutputKind) string {
	parts := []string{fmt.Sprintf("exit %d", r.Exit.Code)}
	switch kind {
	case OutputText:
		parts = append(parts, "text output ("+counted(strings.Count(strings.TrimSpace(r.Stdout), "\n")+1, "line")+")")
		if r.StdoutBytes > int64(len(r.Stdout)) {
			parts[1] = fmt.Sprintf("text output (%d bytes)", r.StdoutBytes)
		}
	case OutputJSON:
		parts = append(parts, "one JSON value")
	case OutputFile:
		parts = append(parts, "the planned files")
	default:
		parts[0] += " only, output not checked"
	}
	if n := len(r.Checks); n > 0 {
		parts = append(parts, counted(n, "check")+" passed")
	}
	return strings.Join(parts, ", ")
}
