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

// Forge is one repository at one forge. Its methods may be called concurrently.
//
// Errors are those of the api package: KindUnauthenticated for a token that is
// missing or not taken, KindDenied for one that may not, KindNotFound for what is
// not there or hidden from it, KindConflict for a state that does not allow the
// request, KindExhausted for a rate limit, with its end in the hint and in
// [RetryAt], KindUnavailable for a forge that fails or cannot be reached, and the
// context's own error when it ended. No error holds the token.
type Forge interface {
	// Name is the kind: "github", "gitlab" or "gitea".
	Name() string
	// Repository reads what is needed of the repository.
	Repository(ctx context.Context) (Repository, error)
	// Open opens the merge request, or finds the open one of the same source and
	// target branch in the same repository, whoever's branch of that name a fork
	// has. It may be called again after any failure: a request that arrived
	// although its answer did not is found and not made twice.
	//
	// One that Open made (it carries [Marker]) gets the title, the body and the
	// labels asked for; its draft state stays as people left it. One that a person
	// made is left as it is and reported as Foreign. Beside an error, a
	// MergeRequest with a Number is what exists all the same.
	Open(ctx context.Context, req Request) (MergeRequest, error)
}

// Repository is what a forge tells about one.
type Repository struct {
	// DefaultBranch is the branch that requests aim at when nobody says otherwise.
	// It is empty for an empty repository.
	DefaultBranch string
	// Protected are the names, or the forge's own patterns, of the branches that
	// are protected.
	Protected []string
	// ProtectedComplete is false when the token may not see all of them.
	ProtectedComplete bool
	// URL is the repository's page.
	URL string
	// Archived repositories take no branches and no requests.
	Archived bool
}

// Request asks for a merge request of a branch that is there already.
type Request struct {
	// Source and Target are branches of the repository, without refs/heads/.
	Source, Target string
	// Title is one line of at most [MaxTitle] characters; see [Title].
	Title string
	// Body is Markdown of at most [MaxBody] bytes; see [Body].
	Body string
	// Draft asks for a request that is not ready to be merged.
	Draft bool
	// Labels are added, and made where the forge does not know them: at most
	// [MaxLabels] of 1 to [MaxLabel] characters, without commas.
	Labels []string
	// Commit, when set, is the full hash that Source must be at: a branch that
	// moved since it was pushed is a conflict.
	Commit string
}

// Bounds of a [Request]. The smallest forge decides: GitHub takes 256 characters
// of title and 65,536 of body, GitLab 255 and 1,048,576, and labels of 50.
const (
	MaxTitle  = 200
	MaxBody   = 60_000
	MaxLabels = 20
	MaxLabel  = 50
)

// MergeRequest is what became of a [Request].
type MergeRequest struct {
	// Number is what people call it by: #7, or !7 at GitLab.
	Number int
	// URL is its page.
	URL string
	// State is "open".
	State string
	// Draft tells what it is now, whatever was asked for.
	Draft bool
	// Created is false when it was there already; Updated says that its title, body
	// or labels were changed then.
	Created, Updated bool
	// Foreign says that a person opened it; nothing of it was changed.
	Foreign bool
}

// Marker ends the body of every request that Open made, so that it knows them.
const Marker = "<!-- opened by hortus -->"

// Check says what is wrong with a request, as KindInvalid.
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
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != breaker }) < 0
}

func hash(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// CheckBranch says what is wrong with the name of a branch, as KindInvalid. It is
// git's own rule (git check-ref-format) for names of printable characters, at
// most 244 bytes.
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
	// Until is when the forge takes requests again.
	Until time.Time
}

// Error implements error.
func (w *Wait) Error() string { return "" }

// RetryAt tells from when on a call that failed may be made again, if the forge
// said so.
func RetryAt(err error) (time.Time, bool) {
	var w *Wait
	if errors.As(err, &w) {
		return w.Until, true
	}
	return time.Time{}, false
}
