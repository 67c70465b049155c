package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testLessonVectors: vectors live with their lessons, and are compared with those of their model, account and scope only.
func testLessonVectors(t *testing.T, s store.Store) {
	ctx := t.Context()
	put := func(account, scope, fingerprint string) api.Lesson {
		t.Helper()
		l := newLesson(scope, fingerprint, "failure "+fingerprint)
		l.Account = account
		l, err := s.PutLesson(ctx, l)
		must(t, err)
		return l
	}
	embed := func(account string, l api.Lesson, model string, v ...float32) error {
		return s.PutLessonVectors(ctx, account, []store.LessonVector{{ID: l.ID, Failure: l.Failure, Model: model, Values: v}})
	}
	missing := func(model string, limit int) string {
		t.Helper()
		have, all, err := s.LessonsToEmbed(ctx, "", "repo", model, limit)
		must(t, err)
		return fmt.Sprint(have, " ", strings.Join(fingerprints(all), " "))
	}
	near := func(q store.VectorQuery) string {
		t.Helper()
		q.Scope = "repo"
		found, err := s.NearLessons(ctx, q)
		must(t, err)
		return strings.Join(fingerprints(found), " ")
	}
	a, b, c := put("", "repo", "a"), put("", "repo", "b"), put("", "repo", "c")
	alien, other := put("ada", "repo", "d"), put("", "other", "e")
	if got := missing("m", 9); got != "0 c b a" || a.Vector != "" {
		t.Error("without vectors:", got, a.Vector)
	}
	must(t, s.PutLessonVectors(ctx, "", []store.LessonVector{
		{ID: a.ID, Failure: a.Failure, Model: "m", Values: []float32{1, 0}}, {ID: b.ID, Failure: b.Failure, Model: "m", Values: []float32{3, 1}},
		{ID: c.ID, Failure: c.Failure, Model: "m"},
		// None of these is stored: of another account, gone, of another failure.
		{ID: alien.ID, Failure: alien.Failure, Model: "m", Values: []float32{1, 0}}, {ID: "l-unknown", Failure: "x", Model: "m", Values: []float32{1, 0}},
	}))
	must(t, embed("", api.Lesson{ID: b.ID, Failure: "other words"}, "m", 0, 1))
	must(t, embed("ada", alien, "m", 1, 0))
	must(t, embed("", other, "m", 1, 0))
	if got := missing("m", 9); got != "2 " {
		t.Error("with vectors, and one that was refused:", got)
	}
	if got := missing("n", 2); got != "0 c b" {
		t.Error("of another model:", got)
	}
	query := []float32{2, 0}
	for _, x := range []struct {
		name string
		q    store.VectorQuery
		want string
	}{
		{"the nearest first", store.VectorQuery{Model: "m", Values: query, Least: 0.5, Limit: 9}, "a b"},
		{"only the near", store.VectorQuery{Model: "m", Values: query, Least: 0.99, Limit: 9}, "a"},
		{"a limit", store.VectorQuery{Model: "m", Values: query, Least: 0.5, Limit: 1}, "a"},
		{"without its own", store.VectorQuery{Model: "m", Fingerprint: "a", Values: query, Least: 0.5, Limit: 9}, "b"},
		{"another direction", store.VectorQuery{Model: "m", Values: []float32{-1, 0}, Least: 0.1, Limit: 9}, ""},
		{"another model", store.VectorQuery{Model: "n", Values: query, Least: 0.1, Limit: 9}, ""},
		{"another account", store.VectorQuery{Account: "ada", Model: "m", Values: query, Least: 0.1, Limit: 9}, "d"},
		{"an account without", store.VectorQuery{Account: "bob", Model: "m", Values: query, Least: 0.1, Limit: 9}, ""},
	} {
		if got := near(x.q); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}

	// The first vector of a model fixes their dimension, in all accounts; another model has its own.
	wantKind(t, embed("ada", alien, "m", 1, 0, 0), api.KindInvalid)
	_, err := s.NearLessons(ctx, store.VectorQuery{Scope: "repo", Model: "m", Values: []float32{1}, Limit: 9})
	wantKind(t, err, api.KindInvalid)
	must(t, embed("", a, "n", 1, 0, 0))
	if got := near(store.VectorQuery{Model: "m", Values: query, Least: 0.1, Limit: 9}); got != "b" {
		t.Error("a vector of another model took its place:", got)
	}
	if found, err := s.FindLesson(ctx, "", a.ID); err != nil || found.Vector != "n" {
		t.Error(found, err)
	}
	if found, err := s.FindLesson(ctx, "", c.ID); err != nil || found.Vector != "" {
		t.Error("one that was refused has a vector:", found, err)
	}
	nan := float32(math.NaN())
	for _, bad := range [][]float32{{}, {nan}, {float32(math.Inf(1))}, make([]float32, 4097)} {
		wantKind(t, embed("", b, "new", bad...), api.KindInvalid)
		_, err := s.NearLessons(ctx, store.VectorQuery{Scope: "repo", Model: "new", Values: bad, Limit: 9})
		wantKind(t, err, api.KindInvalid)
	}
	wantKind(t, embed("", b, "", 1), api.KindInvalid)

	// The same failure again keeps the vector, another text in its place does not.
	again := newLesson("repo", "b", b.Failure)
	if have, err := s.PutLesson(ctx, again); err != nil || have.Vector != "m" {
		t.Error(have, err)
	}
	again.Failure = "other words"
	if have, err := s.PutLesson(ctx, again); err != nil {
		t.Error(err)
	} else if have, err = s.FindLesson(ctx, "", have.ID); err != nil || have.Vector != "" {
		t.Error("the vector of another text:", have, err)
	}
	// A vector goes with its lesson: the same failure, when it is learned anew, has none.
	if gone, err := s.RemoveLesson(ctx, "", a.ID); err != nil || gone.ID != a.ID {
		t.Error(gone, err)
	}
	put("", "repo", "a")
	if got := missing("n", 9); got != "0 a c b" {
		t.Error("after a removal:", got)
	}

	// An error in the middle stores nothing of what was before it.
	err = s.PutLessonVectors(ctx, "", []store.LessonVector{{ID: c.ID, Failure: c.Failure, Model: "k", Values: []float32{1}}, {ID: b.ID, Failure: "other words", Model: "k", Values: []float32{1, 2}}})
	wantKind(t, err, api.KindInvalid)
	if have, _, err := s.LessonsToEmbed(ctx, "", "repo", "k", 9); err != nil || have != 0 {
		t.Error(errors.Join(err, fmt.Errorf("%d vectors are stored", have)))
	}
}
