package lesson_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/agent/model/retry"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/lesson"
	"hortus.dev/test/embedserver"
)

// synonyms make failures of other words the same to the embedding server.
var synonyms = map[string]string{
	"absent": "missing", "lacking": "missing", "library": "package", "dependency": "package", "loading": "importing",
}

// Three failures: the second says the first in other words, the third is another.
const (
	absent  = "LoaderError: dependency lacking when loading numpy"
	same    = "LoaderError: package missing when importing numpy"
	another = "SocketError: permission denied by printer"
)

// school is a book with an embedding server.
type school struct {
	t      *testing.T
	db     *database.DB
	server *embedserver.Server
	url    string
	now    time.Time
	log    bytes.Buffer
}

func newSchool(t *testing.T) *school {
	s := &school{t: t, db: open(t), server: embedserver.New(256, synonyms), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	srv := httptest.NewServer(s.server)
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/v1"
	return s
}

// book opens the lessons with a model; "" is none.
func (s *school) book(model string) *lesson.Book {
	s.t.Helper()
	cfg := lesson.Config{Rows: s.db, Now: func() time.Time { return s.now }, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}
	if model != "" {
		e, err := openai.NewEmbedder(openai.Config{Model: model, BaseURL: s.url})
		if err != nil {
			s.t.Fatal(err)
		}
		cfg.Embedder = retry.NewEmbedder(e, retry.Config{Tries: 2, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	}
	return lesson.New(cfg)
}

func (s *school) learn(b *lesson.Book, failures ...string) {
	s.t.Helper()
	for _, f := range failures {
		if err := b.Learn(s.t.Context(), ended(f), ""); err != nil {
			s.t.Fatal(err)
		}
	}
}

// about says what is found, and how.
func (s *school) about(b *lesson.Book, failure string) string {
	s.t.Helper()
	found, err := b.About(s.t.Context(), "", "language:python", trace(1, failure))
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, l := range found {
		out = append(out, string(l.By)+" "+l.Failure)
	}
	return strings.Join(out, "; ")
}

// vectors counts the lessons with a vector of a model.
func (s *school) vectors(model string) int {
	s.t.Helper()
	have, _, err := s.db.LessonsToEmbed(s.t.Context(), "", "language:python", model, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	return have
}

// TestByVector: a failure in other words is found by its vector, and not without a model.
func TestByVector(t *testing.T) {
	s := newSchool(t)
	plain, book := s.book(""), s.book("words")
	s.learn(book, absent, another)
	if n := s.vectors("openai:words"); n != 2 {
		t.Errorf("%d vectors after two tasks", n)
	}
	if got := s.about(plain, same); got != "" {
		t.Fatalf("without a model: %q", got)
	}
	if got, want := s.about(book, same), "vector "+absent; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := s.about(book, absent), "fingerprint "+absent; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Shared words and a near vector: it would be found without a model.
	like := strings.Replace(absent, "numpy", "scipy", 1)
	if got, want := s.about(book, like), "text "+absent; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, x := range []struct{ account, scope string }{{"ada", "language:python"}, {"", "language:go"}} {
		calls := len(s.server.Calls())
		if got, err := book.About(t.Context(), x.account, x.scope, same); err != nil || len(got) != 0 {
			t.Errorf("%v: %v, %v", x, got, err)
		}
		if len(s.server.Calls()) != calls {
			t.Errorf("%v: the server was asked for a scope without lessons", x)
		}
	}
	if s.log.Len() > 0 {
		t.Error(s.log.String())
	}
	// A near vector is no reason to offer what never helped.
	found, err := book.About(t.Context(), "", "language:python", same)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for range 5 {
		if err := book.Learn(t.Context(), api.Task{Outcome: api.OutcomeNeedsHuman, Lessons: []string{found[0].ID}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.about(book, same); got != "" {
		t.Errorf("still offered: %q", got)
	}
}

// TestOrder: the same failure first, then by the places in both lists, and no more than are offered.
func TestOrder(t *testing.T) {
	s := newSchool(t)
	book := s.book("words")
	both := "LoaderError: package missing when importing scipy"
	s.learn(book, absent, both, same, "LoaderError: library absent when loading pandas")
	got := s.about(book, same)
	if want := "fingerprint " + same + "; text " + both + "; vector " + absent; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNothingSecretIsSent: the server is sent what failed, without keys and passwords, and neither fixes nor scopes.
func TestNothingSecretIsSent(t *testing.T) {
	s := newSchool(t)
	book := s.book("words")
	const key, password = "sk-live-0123456789abcdefghij", "hunter2-of-ada"
	task := ended("AuthError: token=Zx81Kq0Lm2Np4Rt6Vw8 and " + key + " denied at https://ada:" + password + "@example.org/x")
	task.Attempts[1].Artifact.Files[0].Content = "print('" + key + "')\n"
	if err := book.Learn(t.Context(), task, ""); err != nil {
		t.Fatal(err)
	}
	s.about(book, "AuthError: "+key+" denied")
	found, err := book.About(t.Context(), "", "language:python", task.Attempts[0].Result.Stderr)
	if err != nil || len(found) != 1 || found[0].By != api.LessonByFingerprint {
		t.Fatal(found, err)
	}
	// A lesson of a version that took nothing out.
	old := api.Lesson{ID: api.NewLessonID(), Scope: "language:python", Fingerprint: "old", Failure: "OldError: " + key, Fix: "x", Task: api.NewTaskID(), LearnedAt: s.now}
	if _, err := s.db.PutLesson(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.about(book, another)
	texts := s.server.Texts()
	if s.vectors("openai:words") != 2 || len(texts) < 3 || !strings.Contains(texts[0], "AuthError") {
		t.Fatalf("%q", texts)
	}
	for _, text := range append(texts, found[0].Failure, found[0].Fix) {
		for _, secret := range []string{"0123456789abcdef", password, "Zx81Kq0"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q has %q", text, secret)
			}
		}
	}
	for _, text := range texts {
		if strings.Contains(text, "print(") || strings.Contains(text, "language:") || strings.Contains(text, "install") {
			t.Errorf("sent: %q", text)
		}
	}
}

// TestServerFails: whatever an embedding server does, a lesson is learned and found as without it, and gets its
// vector later.
func TestServerFails(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *embedserver.Server)
		says string
	}{
		{"500", func(s *embedserver.Server) {
			for range 8 {
				s.Next(http.StatusInternalServerError, "", `{"error":{"message":"broken"}}`)
			}
		}, "broken"},
		{"429 for long", func(s *embedserver.Server) {
			for range 8 {
				s.Next(http.StatusTooManyRequests, "Retry-After: 3600", `{"error":{"message":"slow down"}}`)
			}
		}, "slow down"},
		{"a wrong key", func(s *embedserver.Server) {
			for range 8 {
				s.Next(http.StatusUnauthorized, "", `{"error":{"message":"wrong key"}}`)
			}
		}, "wrong key"},
		{"NaN", func(s *embedserver.Server) {
			for range 8 {
				s.Next(http.StatusOK, "", `{"data":[{"index":0,"embedding":[NaN]}]}`)
			}
		}, "not one of the embeddings API"},
		{"too many", func(s *embedserver.Server) {
			for range 8 {
				s.Next(http.StatusOK, "", `{"data":[`+strings.TrimSuffix(strings.Repeat(`{"embedding":[1]},`, 99), ",")+`]}`)
			}
		}, "more than 64 vectors"},
		{"400 to everything", func(s *embedserver.Server) { s.Refuse(1) }, "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSchool(t)
			book := s.book("words")
			c.fail(s.server)
			s.learn(book, absent)
			s.now = s.now.Add(time.Hour)
			if got := s.about(book, same); got != "" {
				t.Errorf("found %q", got)
			}
			if got, want := s.about(book, absent), "fingerprint "+absent; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if n := s.vectors("openai:words"); n != 0 {
				t.Errorf("%d vectors", n)
			}
			if !strings.Contains(s.log.String(), c.says) || !strings.Contains(s.log.String(), "next=") {
				t.Errorf("the log does not say %q:\n%s", c.says, &s.log)
			}
			// A model that failed is left alone for a while, then asked again.
			calls := len(s.server.Calls())
			s.about(book, same)
			if n := len(s.server.Calls()); n != calls {
				t.Errorf("asked %d times in the pause", n-calls)
			}
			// Not so for another account.
			theirs := api.Lesson{ID: api.NewLessonID(), Account: "ada", Scope: "language:python", Fingerprint: "f", Failure: absent, Fix: "x", Task: api.NewTaskID(), LearnedAt: s.now}
			if _, err := s.db.PutLesson(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			if _, err := book.About(t.Context(), "ada", "language:python", same); err != nil || len(s.server.Calls()) == calls {
				t.Errorf("the model is not asked for another account: %v", err)
			}
			s.server.Forget()
			s.now = s.now.Add(2 * time.Minute)
			if got, want := s.about(book, same), "vector "+absent; got != want {
				t.Errorf("after the failure: %q, want %q", got, want)
			}
		})
	}
}

// TestOverload: an overload that passes is waited for, within one call.
func TestOverload(t *testing.T) {
	s := newSchool(t)
	book := s.book("words")
	s.server.Next(http.StatusTooManyRequests, "Retry-After: 1", `{"error":{"message":"slow down"}}`)
	s.learn(book, absent)
	if n := s.vectors("openai:words"); n != 1 || s.log.Len() > 0 {
		t.Errorf("%d vectors\n%s", n, &s.log)
	}
}

// TestCanceledSearch: a task that is canceled while the server thinks is told so, and the model is not blamed.
func TestCanceledSearch(t *testing.T) {
	s := newSchool(t)
	s.learn(s.book("words"), absent)
	ctx, cancel := context.WithCancel(t.Context())
	book := lesson.New(lesson.Config{Rows: s.db, Embedder: waiting(cancel), Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	if got, err := book.About(ctx, "", "language:python", same); err == nil {
		t.Errorf("%v", got)
	}
	if s.log.Len() > 0 {
		t.Error(s.log.String())
	}
}

// waiting is an embedder whose calls end with their context, after it called the function.
type waiting func()

func (waiting) Name() string { return "waiting" }

func (w waiting) Embed(ctx context.Context, _ []string) ([][]float32, error) {
	w()
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAnotherModel: lessons with a vector of another model are embedded anew by the searches, some in each.
func TestAnotherModel(t *testing.T) {
	s := newSchool(t)
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprintf("KeyError: field_%c%c", 'a'+i/26, 'a'+i%26))
	}
	s.learn(s.book(""), append(all, absent)...)
	old := s.book("old")
	s.about(old, same)
	s.about(old, same)
	if n := s.vectors("openai:old"); n != 41 {
		t.Fatalf("%d vectors of the first model", n)
	}
	// Another dimension is no problem for another name.
	s.server.Resize(64)
	book := s.book("new")
	if got, want := s.about(book, same), "vector "+absent; got != want { // the newest go first
		t.Errorf("%q, want %q", got, want)
	}
	if n, old := s.vectors("openai:new"), s.vectors("openai:old"); n != 32 || old != 9 {
		t.Errorf("%d vectors anew, %d are left", n, old)
	}
	s.about(book, same)
	if n := s.vectors("openai:new"); n != 41 {
		t.Errorf("%d vectors after the second search", n)
	}
	calls := s.server.Calls()
	if last := calls[len(calls)-1]; len(last) != 10 {
		t.Errorf("the second search sent %d texts", len(last))
	}
	s.about(book, same)
	calls = s.server.Calls()
	if last := calls[len(calls)-1]; !slices.Equal(last, []string{same}) {
		t.Errorf("the third search sent %q", last)
	}

	// The same name with another dimension is refused, and says what to do.
	s.server.Resize(128)
	if got := s.about(book, same); got != "" {
		t.Errorf("found %q", got)
	}
	if !strings.Contains(s.log.String(), "128 numbers") || !strings.Contains(s.log.String(), "restore it") {
		t.Error(s.log.String())
	}
}

// TestRefusedText: a text that the model refuses is sent alone once, and does not keep the others from their vectors.
func TestRefusedText(t *testing.T) {
	s := newSchool(t)
	book := s.book("words")
	long := "LongError: " + strings.TrimSpace(strings.Repeat("words and words ", 15))
	s.server.Refuse(150)
	s.learn(book, absent, long, another)
	if n := s.vectors("openai:words"); n != 1 {
		t.Errorf("%d vectors after the tasks", n)
	}
	if got, want := s.about(book, same), "vector "+absent; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := s.vectors("openai:words"); n != 2 || !strings.Contains(s.log.String(), "refuses the failure of a lesson") {
		t.Errorf("%d vectors\n%s", n, &s.log)
	}
	calls := len(s.server.Calls())
	if got, want := s.about(book, same), "vector "+absent; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := len(s.server.Calls()) - calls; n != 1 {
		t.Errorf("%d calls for the next search", n)
	}
	// It is found as without a model, and sent again to another one.
	s.server.Refuse(0)
	if got, want := s.about(s.book("large"), long), "fingerprint "+long; got != want || s.vectors("openai:large") != 3 {
		t.Errorf("%q, want %q; %d vectors", got, want, s.vectors("openai:large"))
	}
}

// TestConcurrentSearches: searches that embed the same lessons at the same time do not disturb each other.
func TestConcurrentSearches(t *testing.T) {
	s := newSchool(t)
	s.learn(s.book(""), absent, another)
	book := s.book("words")
	found := make(chan string)
	for range 4 {
		go func() {
			got, err := book.About(t.Context(), "", "language:python", same)
			found <- fmt.Sprint(len(got), err)
		}()
	}
	for range 4 {
		if got := <-found; got != "1 <nil>" {
			t.Error(got)
		}
	}
	if n := s.vectors("openai:words"); n != 2 {
		t.Errorf("%d vectors", n)
	}
}
