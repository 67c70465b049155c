package lesson

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/redact"
	"hortus.dev/internal/store"
)

// Embedder turns texts into vectors, one for each text, all of one dimension.
type Embedder interface {
	// Name is that of the model. Vectors of different names are not compared.
	Name() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

const (
	// maxAnew is the most lessons without a vector that one search embeds, and maxLearned those that the end of a task
	// does.
	maxAnew    = 32
	maxLearned = 8
	// searchTimeout and learnTimeout bound what a task waits for an embedding model.
	searchTimeout = 15 * time.Second
	learnTimeout  = 5 * time.Second
	// pause is the time that a model is not asked for an account after it failed, and maxPaused the most accounts for
	// which that is remembered.
	pause     = time.Minute
	maxPaused = 1000
)

// near finds the lessons whose vectors are near to that of a failure, and embeds lessons that have none yet. It
// returns none without a model, or with one that fails, which is logged.
func (b *Book) near(ctx context.Context, account, scope string, f Failure, limit int) []api.Lesson {
	if b.cfg.Embedder == nil || b.paused(account) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	found, err := b.nearest(within, account, scope, f, limit)
	if err != nil {
		b.failed(ctx, "search for lessons by their vectors", account, scope, err)
		return nil
	}
	return found
}

func (b *Book) nearest(ctx context.Context, account, scope string, f Failure, limit int) ([]api.Lesson, error) {
	model := b.cfg.Embedder.Name()
	have, missing, err := b.cfg.Rows.LessonsToEmbed(ctx, account, scope, model, maxAnew)
	if err != nil || have+len(missing) == 0 {
		return nil, err // without a lesson there is nothing to ask a server for
	}
	texts := []string{f.Text}
	for _, l := range missing {
		texts = append(texts, l.Failure)
	}
	vectors, err := b.embed(ctx, texts)
	if refused(err) && len(missing) > 0 {
		// It may be the text of one of the lessons.
		if vectors, err = b.embed(ctx, texts[:1]); err != nil {
			return nil, err
		}
		if err := b.putEach(ctx, account, missing, texts[:1]); err != nil {
			return nil, err
		}
		missing = nil
	}
	if err != nil {
		return nil, err
	}
	if err := b.put(ctx, account, missing, vectors[1:]); err != nil {
		return nil, err
	}
	return b.cfg.Rows.NearLessons(ctx, store.VectorQuery{
		Account: account, Scope: scope, Fingerprint: f.Fingerprint, Model: model, Values: vectors[0], Least: b.cfg.Similarity, Limit: limit,
	})
}

// embed returns one vector for each text. What looks like a secret is not sent: a lesson may be from a version that
// did not take it out.
func (b *Book) embed(ctx context.Context, texts []string) ([][]float32, error) {
	var secrets redact.Redactor
	sent := make([]string, len(texts))
	for i, text := range texts {
		sent[i], _ = secrets.Redact(text)
	}
	vectors, err := b.cfg.Embedder.Embed(ctx, sent)
	if err == nil && len(vectors) != len(sent) {
		err = api.Errorf(api.KindInternal, "embedding model %s: %d vectors for %d texts", b.cfg.Embedder.Name(), len(vectors), len(texts))
	}
	return vectors, err
}

// put stores the vectors of lessons.
func (b *Book) put(ctx context.Context, account string, of []api.Lesson, vectors [][]float32) error {
	if len(of) == 0 {
		return nil
	}
	rows := make([]store.LessonVector, len(of))
	for i, l := range of {
		rows[i] = store.LessonVector{ID: l.ID, Failure: l.Failure, Model: b.cfg.Embedder.Name(), Values: vectors[i]}
	}
	return b.cfg.Rows.PutLessonVectors(ctx, account, rows)
}

// refused reports whether a model may have failed because of a text: some servers answer 500 to one that is too long.
func refused(err error) bool {
	return api.KindOf(err) == api.KindInvalid || api.KindOf(err) == api.KindUnavailable
}

// putEach embeds lessons one by one. A text that the model refuses, while it still answers to known ones, is noted, so
// that it is not sent again.
func (b *Book) putEach(ctx context.Context, account string, of []api.Lesson, known []string) error {
	for _, l := range of {
		vectors, err := b.embed(ctx, []string{l.Failure})
		if refused(err) {
			why := err
			if _, err = b.embed(ctx, known); err == nil {
				b.cfg.Logger.Warn("the embedding model refuses the failure of a lesson", "lesson", l.ID, "model", b.cfg.Embedder.Name(), "err", why)
				vectors = [][]float32{nil}
			}
		}
		if err != nil {
			return err
		}
		if err := b.put(ctx, account, []api.Lesson{l}, vectors); err != nil {
			return err
		}
	}
	return nil
}

// embedLearned gives the newest lessons of a scope their vectors. If that fails, the next search does it.
func (b *Book) embedLearned(ctx context.Context, account, scope string) {
	if b.cfg.Embedder == nil || b.paused(account) {
		return
	}
	within, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	_, missing, err := b.cfg.Rows.LessonsToEmbed(within, account, scope, b.cfg.Embedder.Name(), maxLearned)
	if err == nil && len(missing) > 0 {
		texts := make([]string, len(missing))
		for i, l := range missing {
			texts[i] = l.Failure
		}
		var vectors [][]float32
		if vectors, err = b.embed(within, texts); err == nil {
			err = b.put(within, account, missing, vectors)
		}
	}
	switch {
	case err == nil:
	case refused(err):
		// One of the texts may be the reason, which a search finds out: it is not kept from that.
		b.cfg.Logger.Warn("embed lessons: the next search tries it again", "scope", scope, "err", err, "next", api.HintOf(err))
	default:
		b.failed(ctx, "embed lessons", account, scope, err)
	}
}

// paused reports whether the model failed for an account a short while ago.
func (b *Book) paused(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.Now().Before(b.until[account])
}

// failed logs why vectors are not used, and pauses for the account: one account's texts do not keep others from the
// model. The end of the caller's context is no failure of the model.
func (b *Book) failed(ctx context.Context, what, account, scope string, err error) {
	if ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	if len(b.until) >= maxPaused {
		clear(b.until)
	}
	b.until[account] = b.cfg.Now().Add(pause)
	b.mu.Unlock()
	b.cfg.Logger.Warn(what+": it is tried again later", "account", account, "scope", scope, "model", b.cfg.Embedder.Name(), "pause", pause, "err", err, "next", api.HintOf(err))
}
