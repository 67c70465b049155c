package forge

import (
	"fmt"
	"strings"
)

// Review is what people and checks say about a merge request. All its texts are untrusted.
type Review struct {
	// State is Open, Closed or Merged.
	State string
	// Head is the commit that its branch is at, as the forge knows it.
	Head string
	// Remarks are the comments that the caller does not know, the oldest first of each form. More is true if the forge has more
	// comments than are read.
	Remarks []Remark
	More    bool
	// Failed are the checks of Head that failed, and Pending counts those that have not ended.
	Failed  []Check
	Pending int
}

// Remark is a comment on a merge request: a general one, one on a line of a file, or the text of a review.
type Remark struct {
	// ID names it among those of its merge request.
	ID     string
	Author string
	Body   string
	// Path and Line say what it is about; empty and 0 for the whole request.
	Path string
	Line int
	// Changes is true for a review that requests changes.
	Changes bool
	// Ignored says why nothing may be done because of it; empty for a remark of a person who may write to the repository.
	Ignored string
}

// Check is a check of a commit that failed: a check run, a job or a status.
type Check struct {
	Name string
	// URL is its page, if the forge has one.
	URL string
	// Text is what it reports, or the end of its log, if the forge gives it.
	Text string
}

// Reasons why a remark is ignored.
const (
	IgnoredOwn      = "it is by the user of the token"
	IgnoredBot      = "it is by a bot"
	IgnoredStranger = "its author may not write to the repository"
)

// Bounds of a Review. The sizes are in bytes.
const (
	// MaxRemarks is how many remarks [Review.Text] shows, and MaxChecks how many failed checks are read.
	MaxRemarks = 20
	MaxChecks  = 10
	maxRemark  = 2_000
	maxReport  = 1_500
	maxReview  = 60_000
)

// Text returns what a review says, as a bounded text without control characters.
func (r Review) Text() string {
	var b strings.Builder
	line := func(s string) string {
		s, _ = head(strings.Join(strings.Fields(s), " "), maxIssueLine)
		return s
	}
	quoted := func(s string) {
		for l := range strings.Lines(s) {
			b.WriteString("> " + strings.TrimRight(l, "\n") + "\n")
		}
	}
	for _, m := range r.Remarks[:min(len(r.Remarks), MaxRemarks)] {
		where := "on the merge request"
		if m.Path != "" {
			where = "on the file " + line(m.Path)
		}
		if m.Line > 0 {
			where += fmt.Sprintf(", line %d", m.Line)
		}
		what := "Comment"
		if m.Changes {
			what = "Review that requests changes"
		}
		fmt.Fprintf(&b, "%s of %s %s:\n", what, line(m.Author), where)
		body, cut := head(m.Body, maxRemark)
		if quoted(body); cut {
			b.WriteString("[truncated]\n")
		}
		b.WriteString("\n")
	}
	for _, c := range r.Failed[:min(len(r.Failed), MaxChecks)] {
		fmt.Fprintf(&b, "Failed check: %s", line(c.Name))
		if c.URL != "" {
			b.WriteString(" (" + line(c.URL) + ")")
		}
		b.WriteString("\n")
		if text, left := tail(c.Text, 60, maxReport, 400); text != "" {
			if left > 0 {
				b.WriteString("The end of what it reports:\n")
			}
			quoted(text)
		}
		b.WriteString("\n")
	}
	text, cut := head(b.String(), maxReview)
	if cut {
		text += "\n[truncated]\n"
	}
	return text
}
