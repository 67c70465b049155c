package forge

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// The kinds of forges.
const (
	GitHub = "github"
	GitLab = "gitlab"
	Gitea  = "gitea" // Forgejo speaks the same API
)

// Kinds lists them.
var Kinds = [...]string{GitHub, GitLab, Gitea}

// Forge is a repository at a code host. Its methods may be called concurrently.
//
// Errors are api errors: KindUnauthenticated for a missing or rejected token, KindDenied for
// one without permission, KindNotFound for what does not exist or is hidden from the token,
// KindConflict for a state that does not allow the request, KindExhausted for a rate limit,
// with its end in the hint and in [RetryAt], KindUnavailable for a forge that fails or is
// unreachable, and the context's error when it ends. No error contains the token.
type Forge interface {
	// Name is the kind: "github", "gitlab" or "gitea".
	Name() string
	// Repository reads the repository's properties.
	Repository(ctx context.Context) (Repository, error)
	// Open opens the merge request, or finds the open one with the same source and
	// target branch in the same repository; forks are ignored. It is idempotent: after
	// a failure call it again, it does not create a second request.
	//
	// If Open created the existing request (it has [Marker]), Open updates its title,
	// body and labels and keeps its draft state. A request that a person created does
	// not change and is reported as Foreign. If Open returns an error and a
	// MergeRequest with a Number, that request exists.
	Open(ctx context.Context, req Request) (MergeRequest, error)
	// State returns the state of a merge request by its number: Open, Closed or Merged.
	State(ctx context.Context, number int) (string, error)
	// Review reads what people and checks say about a merge request. Remarks that known reports by their IDs are left out. Who the
	// author of another one is, and whether that person may write to the repository, is asked of the forge: if it does not say, Review
	// fails.
	Review(ctx context.Context, number int, known func(id string) bool) (Review, error)
	// Issue reads an issue with its first comments, at most [MaxComments].
	Issue(ctx context.Context, number int) (Issue, error)
}

// The states of a merge request.
const (
	Open   = "open"
	Closed = "closed"
	Merged = "merged"
)

// Repository describes a repository at a forge.
type Repository struct {
	// DefaultBranch is the default target of requests; empty for an empty repository.
	DefaultBranch string
	// Protected are the names, or the forge's own patterns, of the branches that
	// are protected.
	Protected []string
	// ProtectedComplete is false if the token may not list all of them.
	ProtectedComplete bool
	// URL is the repository's page.
	URL string
	// Archived repositories accept no branches and no requests.
	Archived bool
}

// Request describes a merge request for a branch that exists already.
type Request struct {
	// Source and Target are branches of the repository, without refs/heads/.
	Source, Target string
	// Title is one line of at most [MaxTitle] characters; see [Title].
	Title string
	// Body is Markdown of at most [MaxBody] bytes; see [Body].
	Body string
	// KeepTitle leaves the title of an open request as it is.
	KeepTitle bool
	// Draft marks the request as not ready to be merged.
	Draft bool
	// Labels are added, and created if they do not exist: at most [MaxLabels] of 1 to
	// [MaxLabel] characters, without commas.
	Labels []string
	// Commit, if set, is the full hash that Source must be at: KindConflict if the
	// branch has moved.
	Commit string
}

// Limits of a [Request], the smallest of all forges: GitHub accepts titles of 256
// characters, bodies of 65,536 and labels of 50; GitLab titles of 255 and bodies of
// 1,048,576.
const (
	MaxTitle  = 200
	MaxBody   = 60_000
	MaxLabels = 20
	MaxLabel  = 50
)

// MergeRequest is the result of a [Request].
type MergeRequest struct {
	// Number is its number: #7, or !7 at GitLab.
	Number int
	// URL is its page.
	URL string
	// State is "open".
	State string
	// Draft is the current state, which may differ from the request.
	Draft bool
	// Created is false if it existed already; Updated is true if its title, body or
	// labels were then changed.
	Created, Updated bool
	// Foreign is true if a person opened it; Open did not change it.
	Foreign bool
}

// Marker is the end of the body of every request that Open creates.
const Marker = "<!-- opened by hortus -->"

// Check validates a request.
func (r Request) Check() error {
	if err := CheckBranch(r.Source); err != nil {
		return err
	}
	if err := CheckBranch(r.Target); err != nil {
		return err
	}
	if r.Source == r.Target {
		return api.Errorf(api.KindInvalid, "a request from %q to itself", r.Source)
	}
	if strings.TrimSpace(r.Title) == "" || utf8.RuneCountInString(r.Title) > MaxTitle || !printable(r.Title) {
		return api.Errorf(api.KindInvalid, "the title of a request must be one line of 1 to %d characters", MaxTitle)
	}
	if len(r.Body) > MaxBody || !utf8.ValidString(r.Body) || strings.ContainsRune(r.Body, 0) {
		return api.Errorf(api.KindInvalid, "the body of a request must be text of at most %d bytes; it has %d", MaxBody, len(r.Body))
	}
	if len(r.Labels) > MaxLabels {
		return api.Errorf(api.KindInvalid, "a request with %d labels; the most is %d", len(r.Labels), MaxLabels)
	}
	for _, l := range r.Labels {
		if l == "" || l != strings.TrimSpace(l) || utf8.RuneCountInString(l) > MaxLabel || strings.Contains(l, ",") || !printable(l) {
			return api.Errorf(api.KindInvalid, "%.60q is no label: it must have 1 to %d characters and no comma", l, MaxLabel)
		}
	}
	if r.Commit != "" && !hash(r.Commit) {
		return api.Errorf(api.KindInvalid, "%.80q is not the full hash of a commit", r.Commit)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != zeroWidthSpace }) < 0
}

func hash(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// CheckBranch validates the name of a branch: git's rule (git check-ref-format) for
// printable characters, at most 244 bytes.
func CheckBranch(name string) error {
	bad := func(why string) error {
		return api.Errorf(api.KindInvalid, "%.80q is no name of a branch: it %s", name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > 244:
		return bad("is longer than 244 bytes")
	case name == "@", strings.Contains(name, "@{"), strings.Contains(name, ".."), strings.HasSuffix(name, "."):
		return bad("holds @{ or .., or is @, or ends with a dot")
	case name[0] == '-', strings.HasPrefix(name, "refs/"):
		return bad("begins with - or refs/")
	case name == "HEAD":
		return bad("is git's own word")
	case !utf8.ValidString(name) || strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(`~^:?*[\`, r)
	}) >= 0:
		return bad("holds a space, an unprintable character, or one of ~^:?*[\\")
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return bad("has an empty part, or one that begins with a dot or ends with .lock")
		}
	}
	return nil
}

// Wait is the cause of an error of a rate limit.
type Wait struct {
	// Until is when the forge accepts requests again.
	Until time.Time
}

// Error implements error.
func (w *Wait) Error() string { return "" }

// RetryAt returns when a failed call may be retried, if the forge said so.
func RetryAt(err error) (time.Time, bool) {
	var w *Wait
	if errors.As(err, &w) {
		return w.Until, true
	}
	return time.Time{}, false
}
