package lesson

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/lessons"
)

// Rows is the store of lessons.
type Rows interface {
	PutLesson(ctx context.Context, l lessons.Lesson) (lessons.Lesson, error)
	SimilarLessons(ctx context.Context, q lessons.Query) ([]lessons.Lesson, error)
	CountLessons(ctx context.Context, account string, ids []string, helped bool, at time.Time) error
}

// Config is what a book is made of.
type Config struct {
	Rows Rows
	Now  func() time.Time
}

// Book learns lessons and finds them again.
type Book struct{ cfg Config }

// New makes a book over stored rows.
func New(cfg Config) *Book {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Book{cfg}
}

// tired is how often a lesson may be offered without a success before it is not offered any more.
const tired = 5

// About finds what fixed a failure before, or one that is like it, the best first: at most lessons.MaxOffered.
func (b *Book) About(ctx context.Context, account, scope, output string) ([]lessons.Lesson, error) {
	f := Of(output)
	if f.Text == "" || scope == "" {
		return nil, nil
	}
	// Some of what is found is left out below.
	found, err := b.cfg.Rows.SimilarLessons(ctx, lessons.Query{
		Account: account, Scope: scope, Fingerprint: f.Fingerprint, Words: words(f.Text), Limit: 4 * lessons.MaxOffered,
	})
	if err != nil {
		return nil, err
	}
	var out []lessons.Lesson
	for _, l := range found {
		if l.Helped == 0 && l.Offered >= tired || l.Fingerprint != f.Fingerprint && !alike(f.Text, l.Failure) {
			continue
		}
		if out = append(out, l); len(out) == lessons.MaxOffered {
			break
		}
	}
	return out, nil
}

// Learn stores what an ended task teaches, and counts the lessons that it was given. patch is what a task on a
// repository changed; it may be cut.
func (b *Book) Learn(ctx context.Context, t api.Task, patch string) error {
	var errs []error
	if len(t.Lessons) > 0 && t.Outcome != api.OutcomeCanceled {
		errs = append(errs, b.cfg.Rows.CountLessons(ctx, t.Account, t.Lessons, t.Outcome == api.OutcomeVerified, b.cfg.Now().UTC()))
	}
	for _, l := range From(t, patch) {
		l.ID, l.LearnedAt = api.NewLessonID(), b.cfg.Now().UTC()
		_, err := b.cfg.Rows.PutLesson(ctx, l)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Scope is where lessons of a task are offered; empty if it has none.
func Scope(t api.Task) string {
	if r := t.Create.Repo; r != nil {
		return repository(r.URL)
	}
	l := api.Language("")
	if t.Plan != nil {
		l = t.Plan.Language
	}
	return Programs(l)
}

// Programs is the scope of programs in a language; empty for none.
func Programs(l api.Language) string {
	if l == "" {
		return ""
	}
	return "language:" + string(l)
}

// repository is the scope of a repository: its URL without credentials, so that all who have their own share it
// within their account.
func repository(location string) string {
	if u, err := url.Parse(location); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		location = u.String()
	}
	return strings.TrimSuffix(strings.TrimRight(location, "/"), ".git")
}

// Tell words lessons for a model. The texts are data, and said to be.
func Tell(known []lessons.Lesson) []api.KnownFix {
	out := make([]api.KnownFix, len(known))
	for i, l := range known {
		out[i] = api.KnownFix{Failure: l.Failure, Fix: l.Fix}
	}
	return out
}

// Offers says which lessons were given.
func Offers(known []lessons.Lesson) []lessons.Offer {
	out := make([]lessons.Offer, len(known))
	for i, l := range known {
		first, _, _ := strings.Cut(l.Failure, "\n")
		out[i] = lessons.Offer{ID: l.ID, Task: l.Task, Failure: first}
	}
	return out
}
