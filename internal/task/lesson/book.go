package lesson

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Rows is the store of lessons.
type Rows interface {
	PutLesson(ctx context.Context, l api.Lesson) (api.Lesson, error)
	SimilarLessons(ctx context.Context, q api.LessonQuery) ([]api.Lesson, error)
	CountLessons(ctx context.Context, account string, ids []string, helped bool, at time.Time) error
	store.LessonVectors
}

// Config is what a book is made of.
type Config struct {
	Rows Rows
	Now  func() time.Time
	// Embedder finds failures that mean the same in other words; nil means that none is configured.
	Embedder Embedder
	// Similarity is the least cosine of two vectors whose failures are alike; 0 means DefaultSimilarity.
	Similarity float64
	// Logger learns when the Embedder fails; nil discards that.
	Logger *slog.Logger
}

// DefaultSimilarity is the default of Config.Similarity.
const DefaultSimilarity = 0.6

// Book learns lessons and finds them again.
type Book struct {
	cfg Config

	mu    sync.Mutex
	until map[string]time.Time // by account: the Embedder is not asked before
}

// New makes a book over stored rows.
func New(cfg Config) *Book {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Similarity == 0 {
		cfg.Similarity = DefaultSimilarity
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Book{cfg: cfg, until: map[string]time.Time{}}
}

// tired is how often a lesson may be offered without a success before it is not offered any more.
const tired = 5

// Learn stores what an ended task teaches, and counts the lessons that it was given. patch is what a task on a
// repository changed; it may be cut.
func (b *Book) Learn(ctx context.Context, t api.Task, patch string) error {
	var errs []error
	if len(t.Lessons) > 0 && t.Outcome != api.OutcomeCanceled {
		errs = append(errs, b.cfg.Rows.CountLessons(ctx, t.Account, t.Lessons, t.Outcome == api.OutcomeVerified, b.cfg.Now().UTC()))
	}
	learned := From(t, patch)
	for _, l := range learned {
		l.ID, l.LearnedAt = api.NewLessonID(), b.cfg.Now().UTC()
		_, err := b.cfg.Rows.PutLesson(ctx, l)
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if err == nil && len(learned) > 0 {
		b.embedLearned(ctx, t.Account, learned[0].Scope) // all are of one scope
	}
	return err
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
func Tell(known []api.FoundLesson) []api.KnownFix {
	out := make([]api.KnownFix, len(known))
	for i, l := range known {
		out[i] = api.KnownFix{Failure: l.Failure, Fix: l.Fix}
	}
	return out
}

// Offers says which lessons were given.
func Offers(known []api.FoundLesson) []api.LessonOffer {
	out := make([]api.LessonOffer, len(known))
	for i, l := range known {
		first, _, _ := strings.Cut(l.Failure, "\n")
		out[i] = api.LessonOffer{ID: l.ID, Task: l.Task, Failure: first, By: l.By}
	}
	return out
}

// About finds what fixed a failure before, or one that is like it, the best first: at most api.MaxLessonsOffered. That an
// embedding model does not answer is logged, and the search continues without it.
func (b *Book) About(ctx context.Context, account, scope, output string) ([]api.FoundLesson, error) {
	f := Of(output)
	if f.Text == "" || scope == "" {
		return nil, nil
	}
	// Some of what is found is left out below.
	const limit = 4 * api.MaxLessonsOffered
	found, err := b.cfg.Rows.SimilarLessons(ctx, api.LessonQuery{
		Account: account, Scope: scope, Fingerprint: f.Fingerprint, Words: words(f.Text), Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	var out []api.FoundLesson
	var text []api.Lesson
	for _, l := range useful(found) {
		switch {
		case l.Fingerprint == f.Fingerprint:
			out = append(out, api.FoundLesson{Lesson: l, By: api.LessonByFingerprint})
		case alike(f.Text, l.Failure):
			text = append(text, l)
		}
	}
	near := b.near(ctx, account, scope, f, limit)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out = append(out, fuse(text, useful(near))...)
	return out[:min(len(out), api.MaxLessonsOffered)], nil
}

// useful leaves out the lessons that were offered often and never helped.
func useful(all []api.Lesson) []api.Lesson {
	return slices.DeleteFunc(all, func(l api.Lesson) bool { return l.Helped == 0 && l.Offered >= tired })
}

// fuseAt is the constant of reciprocal rank fusion: the larger it is, the less a first place counts against being in
// both lists. 60 is the usual one.
const fuseAt = 60

// fuse joins two lists by reciprocal rank fusion: a full-text rank and a cosine are numbers of different kinds, but
// places in lists can be added up. Of equals, those that share words go first.
func fuse(text, near []api.Lesson) []api.FoundLesson {
	var out []api.FoundLesson
	score := map[string]float64{}
	for _, of := range []struct {
		by   api.LessonMatch
		list []api.Lesson
	}{{api.LessonByText, text}, {api.LessonByVector, near}} {
		for i, l := range of.list {
			if score[l.ID] == 0 {
				out = append(out, api.FoundLesson{Lesson: l, By: of.by})
			}
			score[l.ID] += 1 / float64(fuseAt+1+i)
		}
	}
	slices.SortStableFunc(out, func(a, b api.FoundLesson) int { return cmp.Compare(score[b.ID], score[a.ID]) })
	return out
}
