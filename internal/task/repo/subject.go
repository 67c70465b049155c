package repo

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/git/cache"
)

// maxNamed bounds the patch that the names of declarations are read from, in bytes.
const maxNamed = 1 << 20

// spoken begins a line in which somebody speaks, which is no subject of a commit.
var spoken = lazyregexp.New(`(?i)^(?:i|i've|we|you|it|this|that|these|the|all|both|no|done|ok|okay|sure|yes|here|now|everything|nothing|summary|task|success(?:fully)?|finished|completed)\b`)

// saidSubject returns the subject that an agent's last word begins with, and what follows it; "" if it begins with something else.
func saidSubject(summary string) (subject, rest string) {
	line, rest, _ := strings.Cut(strings.TrimSpace(summary), "\n")
	if first, _, ok := strings.Cut(line, ". "); ok {
		line, rest = first, summary // a summary in one paragraph
	}
	subject = forge.Subject(line)
	if utf8.RuneCountInString(strings.TrimSpace(line)) > forge.MaxSubject+8 || !strings.Contains(subject, " ") || spoken.MatchString(subject) {
		return "", summary
	}
	return subject, rest
}

// declares finds the name that a line of a program declares.
var declares = lazyregexp.New(`^\s*(?:(?:export|default|pub(?:\([^)]*\))?|async|static|public|private|protected|final|abstract|override|unsafe)\s+)*` +
	`(?:def|func|fun|function|fn|class|struct|interface|trait|enum|impl|module|type)\s+(?:\([^)]*\)\s*)?([A-Za-z_$][\w$]*)`)

// declarations are the names of the declarations that a patch changes, as far as its lines show them.
func declarations(patch string) (names []string) {
	at, head := "", true
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "diff "):
			head = true
		case strings.HasPrefix(line, "@@ "):
			head, at = false, ""
			if _, after, ok := strings.Cut(line[3:], " @@ "); ok {
				if m := declares.FindStringSubmatch(after); m != nil {
					at = m[1]
				}
			}
		case head || line == "":
		case line[0] == ' ', line[0] == '+', line[0] == '-':
			if m := declares.FindStringSubmatch(line[1:]); m != nil {
				at = m[1]
			}
			if line[0] != ' ' && at != "" && strings.TrimSpace(line[1:]) != "" && !slices.Contains(names, at) {
				names = append(names, at)
			}
		}
	}
	return names
}

// plainSubject says what a change does, of which nobody said it: the files, and the declarations of a single one.
func plainSubject(files []api.FileChange, names []string) string {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b api.FileChange) int { // tests come last
		switch {
		case a.Test == b.Test:
			return cmp.Compare(b.Added+b.Deleted, a.Added+a.Deleted)
		case a.Test:
			return 1
		}
		return -1
	})
	verb := map[string]string{"added": "Add", "deleted": "Remove", "renamed": "Rename"}[files[0].Status]
	for _, f := range files {
		if f.Status != files[0].Status {
			verb = ""
		}
	}
	verb = cmp.Or(verb, "Change")
	one := path.Base(files[0].Path)
	switch n := len(files); {
	case n > 2:
		return forge.Subject(fmt.Sprintf("%s %s and %d other files", verb, one, n-1))
	case n == 2:
		return forge.Subject(fmt.Sprintf("%s %s and %s", verb, one, path.Base(files[1].Path)))
	case files[0].Status == "renamed":
		return forge.Subject(fmt.Sprintf("Rename %s to %s", path.Base(files[0].OldPath), one))
	case verb == "Change" && (len(names) == 1 || len(names) == 2):
		return forge.Subject("Change " + strings.Join(names, " and ") + " in " + one)
	}
	return forge.Subject(verb + " " + one)
}

// conventional is a subject with a type, as of conventionalcommits.org.
var conventional = lazyregexp.New(`^(?:build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(?:\([^()]{1,40}\))?!?: \S`)

// styleCommits are how many commits are read for their style, and the fewest that show one.
const styleCommits, styleFewest = 20, 4

// styled returns a subject in the style of the repository's commits.
func (w *attempt) styled(ctx context.Context, subject string) string {
	if conventional.MatchString(subject) {
		return subject
	}
	subjects, err := w.project.members[0].repo.Subjects(ctx, w.project.members[0].base.Hash, styleCommits)
	if err != nil {
		w.project.cfg.Logger.Warn("cannot read the subjects of commits", "task", w.project.task.ID, "err", err)
	}
	n := 0
	for _, s := range subjects {
		if conventional.MatchString(s) {
			n++
		}
	}
	if n < styleFewest || 2*n <= len(subjects) {
		return subject
	}
	kind := "chore"
	only := func(f func(api.FileChange) bool) bool {
		return !slices.ContainsFunc(w.res.Files, func(c api.FileChange) bool { return !f(c) })
	}
	switch {
	case only(func(f api.FileChange) bool { return f.Test }):
		kind = "test"
	case only(func(f api.FileChange) bool { return api.IsDocument(f.Path) }):
		kind = "docs"
	case w.res.Before != nil && !w.res.Before.Passed:
		kind = "fix"
	}
	if r, size := utf8.DecodeRuneInString(subject); unicode.IsUpper(r) && !strings.ContainsFunc(strings.Fields(subject)[0][size:], unicode.IsUpper) {
		subject = string(unicode.ToLower(r)) + subject[size:]
	}
	return forge.Subject(kind + ": " + subject)
}

// entitle sets the title of the result, and returns the message of its commit: what was done, in the words of the agent if it gave a
// subject, and in those of the change if it did not.
func (w *attempt) entitle(ctx context.Context, commit string, partial bool) string {
	subject, body := saidSubject(w.res.Summary)
	if subject == "" {
		var names []string
		if len(w.res.Files) == 1 {
			patch, err := w.project.repo.Diff(ctx, w.project.base.Hash, commit, cache.DiffOptions{Max: maxNamed})
			if err == nil {
				names = declarations(string(patch))
			}
		}
		subject = cmp.Or(plainSubject(w.res.Files, names), "Change files")
	}
	w.res.Title = cmp.Or(w.styled(ctx, subject), subject)
	message := w.res.Title
	if partial {
		message = "[partial] " + message
	}
	if body = forge.Message(body, maxSummary); body != "" {
		message += "\n\n" + body
	}
	if partial {
		message += "\n\nThis work is incomplete, and no gate has passed."
	}
	return message
}
