package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newLesson(scope, fingerprint, failure string) api.Lesson {
	return api.Lesson{
		ID: api.NewLessonID(), Scope: scope, Fingerprint: fingerprint, Failure: failure, Fix: "patch", Task: api.NewTaskID(), Seen: 1, LearnedAt: began,
	}
}

// ids lists lessons by their fingerprints.
func fingerprints(all []api.Lesson) (out []string) {
	for _, l := range all {
		out = append(out, l.Fingerprint)
	}
	return out
}

func testLessons(t *testing.T, s store.Store) {
	ctx := t.Context()
	put := func(l api.Lesson) api.Lesson {
		t.Helper()
		have, err := s.PutLesson(ctx, l)
		must(t, err)
		return have
	}
	first := put(newLesson("repo", "f1", `KeyError: "customer_id" AND (total) OR x*`))
	want := first
	like := put(newLesson("repo", "f2", "KeyError: customer_id in invoice"))
	put(newLesson("repo", "f3", "permission denied: socket"))
	put(newLesson("other", "f1", "KeyError: customer_id"))
	alien := newLesson("repo", "f1", "KeyError: customer_id")
	alien.Account = "a"
	alien = put(alien)

	// The same failure again: the text is replaced, the identifier and the counts stay, and a task counts once.
	must(t, s.CountLessons(ctx, "", []string{first.ID, "l-unknown"}, true, began.Add(time.Hour)))
	must(t, s.CountLessons(ctx, "", []string{first.ID, alien.ID}, false, began.Add(2*time.Hour)))
	again := newLesson("repo", "f1", first.Failure)
	again.Fix, again.LearnedAt = "a better patch", began.Add(time.Minute)
	put(again)
	have := put(again)
	want.Fix, want.Task, want.Seen, want.Offered, want.Helped = again.Fix, again.Task, 2, 2, 1
	want.LearnedAt, want.OfferedAt = again.LearnedAt, began.Add(2*time.Hour)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}

	for _, c := range []struct {
		name string
		q    api.LessonQuery
		want []string
	}{
		{"same first, then alike", api.LessonQuery{Scope: "repo", Fingerprint: "f2", Words: []string{"customer_id", "socket"}, Limit: 9}, []string{"f2", "f3", "f1"}},
		{"limit", api.LessonQuery{Scope: "repo", Fingerprint: "f2", Words: []string{"customer_id"}, Limit: 1}, []string{"f2"}},
		{"no words", api.LessonQuery{Scope: "repo", Fingerprint: "f4", Limit: 9}, nil},
		{"another account", api.LessonQuery{Account: "a", Scope: "repo", Fingerprint: "f4", Words: []string{"customer_id"}, Limit: 9}, []string{"f1"}},
		{"another scope", api.LessonQuery{Scope: "other", Fingerprint: "f4", Words: []string{"customer_id"}, Limit: 9}, []string{"f1"}},
		// Words of a query are words, whatever is in them.
		{"operators", api.LessonQuery{Scope: "repo", Fingerprint: "f4", Words: []string{`customer_id" OR "denied`}, Limit: 9}, nil},
		{"only a quote", api.LessonQuery{Scope: "repo", Fingerprint: "f4", Words: []string{`"`, "NOT", "*", "failure:", "(", "\x00"}, Limit: 9}, nil},
	} {
		found, err := s.SimilarLessons(ctx, c.q)
		must(t, err)
		if got := fingerprints(found); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if found, err := s.SimilarLessons(ctx, api.LessonQuery{Account: "a", Scope: "repo", Fingerprint: "f1", Limit: 1}); err != nil || len(found) != 1 || found[0].Offered != 0 {
		t.Error("counted in another account:", found, err)
	}

	// Pages, newest first.
	var all []string
	paged, pages := walk(t, 2, func(p api.PageRequest) ([]api.Lesson, string, error) { return s.LessonPage(ctx, "", "", p) })
	if all = fingerprints(paged); pages != 3 {
		t.Errorf("%d pages", pages)
	}
	if got := strings.Join(all, " "); got != "f1 f1 f3 f2 f1" {
		t.Error(got)
	}
	if page, _, err := s.LessonPage(ctx, "", "other", api.PageRequest{}); err != nil || len(page) != 1 {
		t.Error(page, err)
	}
	if page, _, err := s.LessonPage(ctx, "a", "", api.PageRequest{}); err != nil || len(page) != 1 || page[0].ID != alien.ID {
		t.Error(page, err)
	}
	_, _, err := s.LessonPage(ctx, "", "", api.PageRequest{Cursor: store.Cursor{At: began, ID: string(api.NewSandboxID())}.Token()})
	wantKind(t, err, api.KindInvalid)

	// One by its identifier, and its removal, in its account only.
	for _, prefix := range []string{like.ID, like.ID[:12], like.ID[1:12]} {
		if found, err := s.FindLesson(ctx, "", prefix); err != nil || found.ID != like.ID {
			t.Error(prefix, found, err)
		}
	}
	_, err = s.FindLesson(ctx, "a", like.ID)
	wantKind(t, err, api.KindNotFound)
	_, err = s.RemoveLesson(ctx, "a", like.ID)
	wantKind(t, err, api.KindNotFound)
	_, err = s.RemoveLesson(ctx, "", like.ID)
	must(t, err)
	_, err = s.RemoveLesson(ctx, "", like.ID)
	wantKind(t, err, api.KindNotFound)
	if found, err := s.SimilarLessons(ctx, api.LessonQuery{Scope: "repo", Fingerprint: "f9", Words: []string{"invoice"}, Limit: 9}); err != nil || len(found) != 0 {
		t.Error("the words of a removed lesson are found:", found, err)
	}

	for _, bad := range []func(*api.Lesson){
		func(l *api.Lesson) { l.ID = "" }, func(l *api.Lesson) { l.Scope = "" }, func(l *api.Lesson) { l.Fingerprint = "" },
		func(l *api.Lesson) { l.Task = "" }, func(l *api.Lesson) { l.LearnedAt = time.Time{} },
		func(l *api.Lesson) { l.Failure = "" }, func(l *api.Lesson) { l.Fix = "" },
		func(l *api.Lesson) { l.Failure = strings.Repeat("x", api.MaxLessonFailure+1) },
		func(l *api.Lesson) { l.Fix = strings.Repeat("x", api.MaxLessonFix+1) },
	} {
		l := newLesson("repo", "f5", "x")
		bad(&l)
		_, err := s.PutLesson(ctx, l)
		wantKind(t, err, api.KindInvalid)
	}
}

// testLessonsFull fills a scope: a lesson that did not help goes first, then the oldest; one that helped stays, and
// so does the new one, whatever its age.
func testLessonsFull(t *testing.T, s store.Store) {
	ctx := t.Context()
	put := func(fingerprint string, at time.Time) string {
		t.Helper()
		l := newLesson("repo", fingerprint, "failure")
		l.LearnedAt = at
		l, err := s.PutLesson(ctx, l)
		must(t, err)
		return l.ID
	}
	known := func(fingerprint string) bool {
		t.Helper()
		found, err := s.SimilarLessons(ctx, api.LessonQuery{Scope: "repo", Fingerprint: fingerprint, Limit: 1})
		must(t, err)
		return len(found) == 1
	}
	var ids []string
	for i := range api.MaxLessonsPerScope {
		ids = append(ids, put(fmt.Sprint(i), began.Add(time.Duration(i)*time.Second)))
	}
	must(t, s.CountLessons(ctx, "", ids[:1], true, began))
	must(t, s.CountLessons(ctx, "", ids[7:8], false, began.Add(time.Hour)))
	for i, gone := range []string{"7", "new 0", "1", "2"} {
		if i != 1 && !known(gone) {
			t.Fatalf("lesson %s is not there", gone)
		}
		put(fmt.Sprint("new ", i), began.Add(time.Duration(i)*time.Hour))
		if known(gone) || !known(fmt.Sprint("new ", i)) || !known("0") {
			t.Errorf("after new %d: lesson %s %v, new %v, the one that helped %v", i, gone, known(gone), known(fmt.Sprint("new ", i)), known("0"))
		}
	}
	put("elsewhere", began)
	all := rows(t, func(p api.PageRequest) ([]api.Lesson, string, error) { return s.LessonPage(ctx, "", "", p) })
	if len(all) != api.MaxLessonsPerScope {
		t.Errorf("%d lessons", len(all))
	}
}
