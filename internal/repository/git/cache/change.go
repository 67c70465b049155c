package cache

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Change is one file that is other than in the parent.
type Change struct {
	Path   string // with slashes, from the top of the tree
	Mode   Mode   // Regular, Executable or Symlink; not looked at where Delete is set
	Delete bool
	Size   int64 // of what Open gives; anything else is refused
	// Open gives the content, or a link's target. It is called at most once, and
	// what it gives is closed.
	Open func() (io.ReadCloser, error)
}

// Identity is who an author or a committer is.
type Identity struct{ Name, Email string }

// Limits bound a commit. A zero takes the default.
type Limits struct {
	Files     int   // changes; 20,000
	FileBytes int64 // of one file; 50 MiB
	Bytes     int64 // of all files together; 500 MiB
}

// CommitRequest is what a commit is made of.
type CommitRequest struct {
	Parent    string // full hash
	Changes   []Change
	Author    Identity
	Committer Identity
	Message   string   // control characters are taken out; at most 64 KiB
	Trailers  []string // "Key: value", appended as the last paragraph
	When      time.Time
	Limits    Limits
}

// Left is a path that is not in the commit, and why.
type Skipped struct{ Path, Why string }

// CommitResult is what became of the changes. Each of them is in the commit, or in
// Refused, or in Ignored, or is what the parent has already.
type CommitResult struct {
	Hash    string // empty where Empty is set
	Tree    string
	Empty   bool      // the tree is the parent's: there is nothing to commit
	Refused []Skipped // what may not be committed
	Ignored []string  // new files that the tree's own .gitignore leaves out
}

func (l Limits) withDefaults() Limits {
	if l.Files == 0 {
		l.Files = 20_000
	}
	if l.FileBytes == 0 {
		l.FileBytes = 50 << 20
	}
	if l.Bytes == 0 {
		l.Bytes = 500 << 20
	}
	return l
}

// check refuses a request that no commit can be made of.
func (q *CommitRequest) check() error {
	if err := git.CheckHash("commit", q.Parent); err != nil {
		return err
	}
	for _, id := range []Identity{q.Author, q.Committer} {
		for _, s := range []string{id.Name, id.Email} {
			if strings.Trim(s, " .,:;\"'") == "" || len(s) > 256 || strings.ContainsAny(s, "<>") || git.Sanitize(s, 256) != s || strings.Contains(s, "\n") {
				return api.Errorf(api.KindInvalid, "commit: %q is not a name or an address that git takes", git.Sanitize(s, 200))
			}
		}
	}
	if q.When.Unix() <= 0 {
		return api.Errorf(api.KindInvalid, "commit: it has no time")
	}
	if q.Limits.Files < 0 || q.Limits.FileBytes < 0 || q.Limits.Bytes < 0 {
		return api.Errorf(api.KindInvalid, "commit: a limit is negative")
	}
	for _, t := range q.Trailers {
		key, value, ok := strings.Cut(t, ": ")
		if !ok || !git.IsName(strings.ReplaceAll(key, "-", "")) || strings.TrimSpace(value) == "" || strings.Contains(value, "\n") || git.Sanitize(value, 1024) != value {
			return api.Errorf(api.KindInvalid, "commit: %q is no trailer, which is \"Key: value\"", git.Sanitize(t, 200))
		}
	}
	if q.message() == "" {
		return api.Errorf(api.KindInvalid, "commit: the message is empty")
	}
	return nil
}

// message is what the commit says.
func (q *CommitRequest) message() string {
	m := q.Message
	if len(m) > 64<<10 {
		m = m[:64<<10]
		for !utf8.ValidString(m) && len(m) > 64<<10-4 {
			m = m[:len(m)-1]
		}
	}
	if m = git.Sanitize(m, 64<<10); m == "" {
		return ""
	}
	if len(q.Trailers) > 0 {
		m += "\n\n" + strings.Join(q.Trailers, "\n")
	}
	return m + "\n"
}
