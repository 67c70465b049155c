package lessons

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/platform/vector"
	"hortus.dev/internal/store"
)

const (
	embeddedSQL = `SELECT count(*) FROM lesson JOIN lesson_vector ON lesson_vector.lesson = lesson.seq
		WHERE account = ?1 AND scope = ?2 AND model = ?3 AND dimension > 0`
	missingSQL = `SELECT ` + columns + ` FROM lesson WHERE account = ?1 AND scope = ?2
		AND NOT EXISTS (SELECT 1 FROM lesson_vector WHERE lesson_vector.lesson = lesson.seq AND model = ?3) ORDER BY seq DESC LIMIT ?4`
	dimensionSQL = `SELECT dimension FROM lesson_vector WHERE model = ? AND dimension > 0 LIMIT 1`
	// A lesson that is gone, or has another failure, matches nothing.
	putVectorSQL = `INSERT INTO lesson_vector (lesson, model, dimension, vector)
		SELECT seq, ?4, ?5, ?6 FROM lesson WHERE account = ?1 AND id = ?2 AND failure = ?3
		ON CONFLICT (lesson) DO UPDATE SET model = excluded.model, dimension = excluded.dimension, vector = excluded.vector`
	vectorsSQL = `SELECT lesson.seq, id, vector FROM lesson JOIN lesson_vector ON lesson_vector.lesson = lesson.seq
		WHERE account = ?1 AND scope = ?2 AND fingerprint <> ?3 AND model = ?4 AND dimension > 0 ORDER BY lesson.seq DESC LIMIT ?5`
	bySeqSQL = `SELECT ` + columns + ` FROM lesson WHERE seq = ?`
)

// LessonsToEmbed implements store.Store.
func (t Table) LessonsToEmbed(ctx context.Context, account, scope, model string, limit int) (have int, missing []api.Lesson, err error) {
	if err := t.Read.QueryRowContext(ctx, embeddedSQL, account, scope, model).Scan(&have); err != nil {
		return 0, nil, t.Explain(ctx, err, "count the vectors of lessons")
	}
	missing, err = t.list(ctx, missingSQL, account, scope, model, limit)
	return have, missing, err
}

// rows is a database or a transaction.
type rows interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// fits reports why a vector cannot stand beside the stored ones of its model.
func (t Table) fits(ctx context.Context, in rows, model string, v []float32) error {
	if err := vector.Check(v); err != nil {
		return err
	}
	var have int
	switch err := in.QueryRowContext(ctx, dimensionSQL, model).Scan(&have); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return t.Explain(ctx, err, "read the dimension of vectors")
	case have != len(v):
		return api.Errorf(api.KindInvalid, "embedding model %.80s answered with vectors of %d numbers, but its stored vectors have %d", model, len(v), have).
			WithHint("The server has another model under this name: restore it, or set another name (embedding in [model]).")
	}
	return nil
}

// PutLessonVectors implements store.Store.
func (t Table) PutLessonVectors(ctx context.Context, account string, all []store.LessonVector) error {
	tx, err := t.Write.BeginTx(ctx, nil)
	if err != nil {
		return t.Explain(ctx, err, "store vectors of lessons")
	}
	defer tx.Rollback() // does nothing after Commit
	for _, v := range all {
		if v.Model == "" {
			return api.Errorf(api.KindInvalid, "row of a vector of lesson %.40s: the model is missing", v.ID)
		}
		if v.Values != nil {
			if err := t.fits(ctx, tx, v.Model, v.Values); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, putVectorSQL, account, v.ID, v.Failure, v.Model, len(v.Values), vector.Encode(v.Values)); err != nil {
			return t.Explain(ctx, err, "store the vector of lesson %.40s", v.ID)
		}
	}
	if err := tx.Commit(); err != nil {
		return t.Explain(ctx, err, "store vectors of lessons")
	}
	return nil
}

// near is a row and its similarity.
type near struct {
	seq   int64
	alike float64
}

// NearLessons implements store.Store.
func (t Table) NearLessons(ctx context.Context, q store.VectorQuery) ([]api.Lesson, error) {
	if err := t.fits(ctx, t.Read, q.Model, q.Values); err != nil {
		return nil, err
	}
	found, err := t.nearest(ctx, q)
	if err != nil {
		return nil, err
	}
	var out []api.Lesson
	for _, n := range found {
		l, err := t.list(ctx, bySeqSQL, n.seq) // none if it was removed since
		if err != nil {
			return nil, err
		}
		out = append(out, l...)
	}
	return out, nil
}

// nearest compares the vectors of a scope, of which it keeps one at a time.
func (t Table) nearest(ctx context.Context, q store.VectorQuery) (found []near, err error) {
	rows, err := t.Read.QueryContext(ctx, vectorsSQL, q.Account, q.Scope, q.Fingerprint, q.Model, api.MaxLessonsPerScope)
	if err != nil {
		return nil, t.Explain(ctx, err, "compare vectors of lessons")
	}
	defer rows.Close()
	for rows.Next() {
		var n near
		var id string
		var raw sql.RawBytes
		if err := rows.Scan(&n.seq, &id, &raw); err != nil {
			return nil, t.Explain(ctx, err, "compare vectors of lessons")
		}
		v, err := vector.Decode(raw)
		if err != nil {
			return nil, api.Errorf(api.KindInternal, "the vector of lesson %s is corrupted: %w", id, err).WithHint("remove the lesson: hortus lesson rm %s", id)
		}
		if n.alike = vector.Cosine(v, q.Values); n.alike >= q.Least {
			found = append(found, n)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, t.Explain(ctx, err, "compare vectors of lessons")
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(b.alike, a.alike) })
	return found[:min(len(found), q.Limit)], nil
}
