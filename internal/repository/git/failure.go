package git

import (
	"cmp"
	"errors"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// stderrBuffer keeps the end of git's standard error and passes it on line by line. One
// goroutine writes to it.
type stderrBuffer struct {
	lines  func(string)
	secret []string
	kept   []byte
	part   []byte
}

func (c *stderrBuffer) Write(b []byte) (int, error) {
	c.kept = append(c.kept, b...)
	if over := len(c.kept) - maxStderr; over > 0 {
		c.kept = append(c.kept[:0], c.kept[over:]...)
	}
	if c.lines != nil {
		for _, x := range b {
			if x == '\n' || x == '\r' {
				c.flush()
			} else if len(c.part) < 1024 {
				c.part = append(c.part, x)
			}
		}
	}
	return len(b), nil
}

func (c *stderrBuffer) flush() {
	if line := Sanitize(Redact(string(c.part), c.secret), 1024); line != "" && c.lines != nil {
		c.lines(line)
	}
	c.part = c.part[:0]
}

func (c *stderrBuffer) text() string { return Sanitize(Redact(string(c.kept), c.secret), maxStderr) }

// Redact replaces secrets in a text.
func Redact(s string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	return s
}

// Sanitize makes untrusted text safe for a terminal and a log: no control characters
// except line ends, no invalid UTF-8, and only the last max bytes.
func Sanitize(s string, max int) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\r':
			return '\n'
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if over := len(s) - max; over > 0 {
		s = s[over:]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
		s = strings.TrimSpace(s)
	}
	return s
}

// noSpace is what git says of a full disk. Its error is syscall.ENOSPC.
const noSpace = "No space left on device"

// kinds maps git's messages, in English by LC_ALL=C, to kinds. The first match counts. An
// unknown message is KindInternal.
var kinds = []struct {
	text string
	kind api.Kind
	hint string
}{
	{noSpace, api.KindExhausted, "free space on the disk of the data directory, for example with hortus gc"}, // before what follows from it
	{"fsck error", api.KindDenied, "the repository holds objects that git itself calls dangerous or broken; see them with git fsck"},
	{"fetch-pack: invalid index-pack output", api.KindDenied, "the server sent objects that are broken or dangerous"},
	{"unable to update url base from redirection", api.KindInvalid, "the server redirects elsewhere; give the address that it redirects to"},
	{"dumb http transport does not support", api.KindUnsupported, "the server speaks only git's old file protocol, whose objects cannot be checked on the way"},
	{"attempting to allocate", api.KindExhausted, "an object of the repository is too large"},
	{"terminal prompts disabled", api.KindUnauthenticated, "the server wants a user name and a token"},
	{"could not read Password", api.KindUnauthenticated, "the server wants a token"},
	{"Authentication failed", api.KindUnauthenticated, "the server does not take this token"},
	{"Permission denied (publickey", api.KindUnauthenticated, "the server does not take your ssh keys; try ssh -T with that host"},
	{"Host key verification failed", api.KindDenied, "the host is not in your known_hosts; connect to it with ssh once and check its key"},
	{"returned error: 403", api.KindDenied, "the server does not allow this with the token given"},
	{"returned error: 401", api.KindUnauthenticated, "the server does not take this token"},
	{"returned error: 404", api.KindNotFound, "check the address; many servers hide what a token may not see"},
	{"returned error: 30", api.KindInvalid, "the server redirects elsewhere; give the address that it redirects to"},
	{"returned error: 5", api.KindUnavailable, "the server fails; try again later"},
	{"not found", api.KindNotFound, "check the address"},
	{"does not appear to be a git repository", api.KindNotFound, "check the address"},
	{"Could not resolve host", api.KindUnavailable, "check the address and the network"},
	{"Failed to connect", api.KindUnavailable, "check the address and the network"},
	{"Could not read from remote repository", api.KindUnavailable, "check the address and your right to read it"},
	{"Operation too slow", api.KindTimeout, "the server sends nothing; try again later"},
	{"certificate verification failed", api.KindDenied, "the server's certificate is not trusted here"},
	{"SSL certificate problem", api.KindDenied, "the server's certificate is not trusted here"},
	{"unable to access", api.KindUnavailable, "check the address and the network"},
}

// callError is the error of a call that ended with an exit code. It has git's message,
// sanitized and redacted.
func callError(c Call, err error, text string) error {
	shown := summary(text)
	shown = cmp.Or(shown, "no reason given")
	if strings.Contains(text, noSpace) {
		err = errors.Join(err, syscall.ENOSPC)
	}
	e := api.Errorf(api.KindInternal, "git %s: %s%w", c.Args[0], shown, hiddenCause{err})
	for _, k := range kinds {
		if strings.Contains(text, k.text) {
			e.Kind = k.kind
			return e.WithHint("%s", k.hint)
		}
	}
	return e
}

// hiddenCause is a cause for errors.As that prints nothing: git's message says more than
// its exit code.
type hiddenCause struct{ err error }

func (hiddenCause) Error() string   { return "" }
func (s hiddenCause) Unwrap() error { return s.err }

// summary returns the informative lines of a message, at most 2 KiB.
func summary(text string) string {
	var keep []string
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "hint:") || strings.Contains(line, "ing objects: ") {
			continue
		}
		keep = append(keep, line)
	}
	return Sanitize(strings.Join(keep, "; "), 2<<10)
}
