package forge

import (
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// WithoutComments removes the HTML comments of Markdown, which its page does not show: a person who reads the page cannot know what they
// say. One without an end reaches to the end of the text. Those in code are removed too.
func WithoutComments(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "<!--")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(after, "-->")
	}
}

var (
	// definition is a line that defines the target of a link. The page does not show it, and it is a usual place for a hidden text.
	definition = lazyregexp.New(`(?m)^[ \t>]*\[[^\]\n]*\]:.*$`)
	// markup is a tag with attributes, or a declaration.
	markup = lazyregexp.New(`<(/?[A-Za-z][A-Za-z0-9-]*)\s[^>]*(>|$)|<[!?][^>]*(>|$)`)
	// titled is the title of a link or an image, alternative the text of an image.
	titled      = lazyregexp.New(`\]\(([^()\s]*)\s[^)]*(\)|$)`)
	alternative = lazyregexp.New(`!\[[^\]]*\]`)
)

// Visible returns Markdown without what its page does not show: HTML comments, attributes of tags, definitions of links, titles of links
// and alternative texts of images. It is for texts of another user than the one who decides on them; code that looks like such
// markup is removed too.
func Visible(s string) string {
	s = WithoutComments(s)
	s = markup.ReplaceAllString(s, "<$1>")
	s = definition.ReplaceAllString(s, "")
	s = alternative.ReplaceAllString(s, "![]")
	s = titled.ReplaceAllString(s, "]($1)")
	return strings.TrimSpace(sanitize(s))
}

// Plain returns the text of a person about whose own request it is: without HTML comments and without characters that are not printable.
func Plain(s string) string { return strings.TrimSpace(sanitize(WithoutComments(s))) }
