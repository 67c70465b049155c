package forge

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// Issue is an issue of a repository. All its texts are untrusted.
type Issue struct {
	Number      int
	URL         string
	Title, Body string
	Author      string
	Comments    []Comment
	// More is true if it has more comments than those.
	More bool
}

// Comment is a comment of an issue.
type Comment struct{ Author, Body string }

// Bounds of an issue. The sizes are in bytes.
const (
	MaxComments  = 30
	maxIssueText = 30_000
	maxIssueBody = 16_000
	maxComment   = 4_000
	maxIssueLine = 300
)

// Text returns what an issue says, as a bounded text without control characters.
func (i Issue) Text() string {
	var b strings.Builder
	line := func(s string) string {
		s, _ = head(strings.Join(strings.Fields(s), " "), maxIssueLine)
		return s
	}
	text := func(s string, most int) {
		s, cut := head(WithoutComments(s), max(0, min(most, maxIssueText-b.Len())))
		if b.WriteString(s + "\n"); cut || len(s) >= most {
			b.WriteString("[truncated]\n")
		}
	}
	fmt.Fprintf(&b, "Title: %s\nAuthor: %s\n\n", line(i.Title), line(i.Author))
	text(i.Body, maxIssueBody)
	for n, c := range i.Comments {
		if b.Len() > maxIssueText-maxIssueLine {
			fmt.Fprintf(&b, "\n[%d more comments omitted]\n", len(i.Comments)-n)
			break
		}
		fmt.Fprintf(&b, "\nComment of %s:\n", line(c.Author))
		text(c.Body, maxComment)
	}
	if i.More {
		b.WriteString("\n[later comments omitted]\n")
	}
	return b.String()
}

// SplitIssue splits the address of an issue's page into that of its repository and its number: https://HOST/OWNER/NAME/issues/12,
// with /-/ before issues at GitLab.
func SplitIssue(address string) (repository string, number int, err error) {
	bad := api.Errorf(api.KindInvalid, "this is not the address of an issue").
		WithHint("Use https://HOST/OWNER/NAME/issues/NUMBER.")
	u, err := url.Parse(address)
	if err != nil || len(address) > maxRemote || !printable(address) || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", 0, bad
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "", 0, bad
	}
	owner, ok := strings.CutSuffix(path[:at], "/issues")
	if !ok {
		owner, ok = strings.CutSuffix(path[:at], "/work_items") // as newer versions of GitLab call them
	}
	number, err = strconv.Atoi(path[at+1:])
	if !ok || err != nil || number <= 0 || path[at+1:] != strconv.Itoa(number) {
		return "", 0, bad
	}
	owner = strings.TrimSuffix(owner, "/-")
	if strings.Count(owner, "/") < 2 {
		return "", 0, bad
	}
	return u.Scheme + "://" + u.Host + owner, number, nil
}
