package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/vector"
	"hortus.dev/internal/store"
)

// lessonColumns are what scanLesson reads.
const lessonColumns = `
		id, account, scope, fingerprint, failure, fix, task, seen, offered, helped, learned_at, offered_at,
		coalesce((SELECT model FROM lesson_vector WHERE lesson_vector.lesson = lesson.seq AND dimension > 0), '')`

const (
	selectLessonSQL = `
		SELECT` + lessonColumns + ` FROM lesson`
	putLessonSQL = `
		INSERT INTO lesson (id, account, scope, fingerprint, failure, fix, task, learned_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (account, scope, fingerprint) DO UPDATE
		SET failure = $5, fix = $6, seen = lesson.seen + CASE WHEN lesson.task <> $7 THEN 1 ELSE 0 END, task = $7, learned_at = $8
		RETURNING` + lessonColumns
	// The most useful stay, besides the new one: first those that helped, and last those that were offered and never
	// helped; of each, those that somebody needed last.
	trimLessonsSQL = `
		DELETE FROM lesson WHERE seq IN (
			SELECT seq FROM lesson
			WHERE account = $1 AND scope = $2 AND fingerprint <> $3
			ORDER BY offered > 0 AND helped = 0, helped > 0 DESC,
				CASE WHEN offered_at > learned_at THEN offered_at ELSE learned_at END DESC, seq DESC
			LIMIT 1000000 OFFSET $4)`
	sameLessonSQL = selectLessonSQL + `
		WHERE account = $1 AND scope = $2 AND fingerprint = $3`
	failuresSQL = `
		SELECT seq, failure FROM lesson
		WHERE account = $1 AND scope = $2
		ORDER BY seq DESC
		LIMIT $3`
	countLessonSQL = `
		UPDATE lesson
		SET offered = offered + 1, helped = helped + $3, offered_at = $4
		WHERE account = $1 AND id = $2`
	findLessonSQL = selectLessonSQL + `
		WHERE ($1 = '' OR account = $1) AND (id >= $2 AND id < $3 OR id >= $4 AND id < $5)
		ORDER BY id LIMIT 2`
	removeLessonSQL = `
		DELETE FROM lesson WHERE account = $1 AND id = $2
		RETURNING` + lessonColumns

	countVectorsSQL = `
		SELECT count(*) FROM lesson JOIN lesson_vector ON lesson_vector.lesson = lesson.seq
		WHERE account = $1 AND scope = $2 AND model = $3 AND dimension > 0`
	lessonsToEmbedSQL = selectLessonSQL + `
		WHERE account = $1 AND scope = $2
			AND NOT EXISTS (SELECT 1 FROM lesson_vector WHERE lesson_vector.lesson = lesson.seq AND model = $3)
		ORDER BY seq DESC
		LIMIT $4`
	dimensionSQL = `
		SELECT dimension FROM lesson_vector WHERE model = $1 AND dimension > 0 LIMIT 1`
	// A lesson that is gone, or has another failure, matches nothing.
	putVectorSQL = `
		INSERT INTO lesson_vector (lesson, model, dimension, vector)
		SELECT seq, $4, $5, $6 FROM lesson WHERE account = $1 AND id = $2 AND failure = $3
		ON CONFLICT (lesson) DO UPDATE
		SET model = excluded.model, dimension = excluded.dimension, vector = excluded.vector`
	vectorsSQL = `
		SELECT lesson.seq, id, vector
		FROM lesson JOIN lesson_vector ON lesson_vector.lesson = lesson.seq
		WHERE account = $1 AND scope = $2 AND fingerprint <> $3 AND model = $4 AND dimension > 0
		ORDER BY lesson.seq DESC
		LIMIT $5`
)

func scanLesson(r scanner) (l api.Lesson, err error) {
	err = r.Scan(&l.ID, &l.Account, &l.Scope, &l.Fingerprint, &l.Failure, &l.Fix, &l.Task, &l.Seen, &l.Offered, &l.Helped,
		instant{&l.LearnedAt}, instant{&l.OfferedAt}, &l.Vector)
	return l, err
}

func (db *DB) listLessons(ctx context.Context, query string, args ...any) ([]api.Lesson, error) {
	return list(ctx, db.read, "lessons", scanLesson, query, args...)
}

func unknownLesson(id string) error {
	return api.Errorf(api.KindNotFound, "unknown lesson %.40q", id).WithHint("list them: hortus lesson ls")
}

// PutLesson implements store.Store.
func (db *DB) PutLesson(ctx context.Context, l api.Lesson) (api.Lesson, error) {
	switch {
	case l.ID == "" || l.Scope == "" || l.Fingerprint == "" || l.Task == "" || l.LearnedAt.IsZero():
		return l, api.Errorf(api.KindInvalid, "row of a lesson: an identifier, its scope, its fingerprint, its task or its time is missing")
	case l.Failure == "" || len(l.Failure) > api.MaxLessonFailure || l.Fix == "" || len(l.Fix) > api.MaxLessonFix:
		return l, api.Errorf(api.KindInvalid, "row of lesson %s: the failure or the fix is missing or too long", l.ID)
	}
	err := db.growTx(ctx, "a lesson", func(tx *sql.Tx) (err error) {
		if err := db.lock(ctx, tx, "lessons", l.Account, l.Scope); err != nil {
			return err
		}
		l, err = scanLesson(tx.QueryRowContext(ctx, putLessonSQL, l.ID, l.Account, l.Scope, l.Fingerprint, l.Failure, l.Fix, string(l.Task), toMicros(l.LearnedAt)))
		if err == nil {
			_, err = tx.ExecContext(ctx, trimLessonsSQL, l.Account, l.Scope, l.Fingerprint, api.MaxLessonsPerScope-1)
		}
		if err != nil {
			return wrapError(ctx, err, "store a lesson")
		}
		return nil
	})
	return l, err
}

// SimilarLessons implements store.Store.
func (db *DB) SimilarLessons(ctx context.Context, q api.LessonQuery) ([]api.Lesson, error) {
	all, err := db.listLessons(ctx, sameLessonSQL, q.Account, q.Scope, q.Fingerprint)
	if err != nil || len(q.Words) == 0 || len(all) >= q.Limit {
		return all, err
	}
	var texts collection
	err = each(ctx, db.read, "lessons", failuresSQL, []any{q.Account, q.Scope, api.MaxLessonsPerScope}, func(r scanner) (bool, error) {
		var seq int64
		var failure string
		err := r.Scan(&seq, &failure)
		texts.add(seq, failure)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	same := map[string]bool{q.Fingerprint: true}
	for _, seq := range texts.search(q.Words) {
		if len(all) == q.Limit {
			break
		}
		found, err := db.listLessons(ctx, selectLessonSQL+` WHERE seq = $1`, seq) // none if it was removed since
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && !same[found[0].Fingerprint] {
			all = append(all, found...)
		}
	}
	return all, nil
}

// CountLessons implements store.Store.
func (db *DB) CountLessons(ctx context.Context, account string, ids []string, helped bool, at time.Time) error {
	return db.inTx(ctx, "the counts of lessons", func(tx *sql.Tx) error {
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, countLessonSQL, account, id, helped, toMicros(at)); err != nil {
				return wrapError(ctx, err, "count lesson %s", id)
			}
		}
		return nil
	})
}

// lessonRow is a lesson with its number, which is where a page begins.
type lessonRow struct {
	api.Lesson
	seq int64
}

// LessonPage implements store.Store.
func (db *DB) LessonPage(ctx context.Context, account, scope string, p api.PageRequest) ([]api.Lesson, string, error) {
	var w where
	w.equals("account", account)
	w.equals("scope", scope)
	rows, next, err := numberedPage(ctx, db, "lessons", `
		SELECT`+lessonColumns+`, seq FROM lesson`, w, p,
		func(r scanner) (row lessonRow, err error) {
			row.Lesson, err = scanLesson(extraColumn{r, &row.seq})
			return row, err
		},
		func(r lessonRow) (time.Time, int64) { return r.LearnedAt, r.seq })
	var out []api.Lesson
	for _, r := range rows {
		out = append(out, r.Lesson)
	}
	return out, next, err
}

// FindLesson implements store.Store.
func (db *DB) FindLesson(ctx context.Context, account, prefix string) (api.Lesson, error) {
	if prefix == "" || len(prefix) > api.IDLen {
		return api.Lesson{}, unknownLesson(prefix)
	}
	all, err := db.listLessons(ctx, findLessonSQL, account, prefix, prefixEnd(prefix), "l"+prefix, prefixEnd("l"+prefix))
	switch {
	case err != nil:
		return api.Lesson{}, err
	case len(all) == 0:
		return api.Lesson{}, unknownLesson(prefix)
	case len(all) > 1:
		return api.Lesson{}, api.Errorf(api.KindInvalid, "lesson %q is ambiguous: %s, %s", prefix, all[0].ID, all[1].ID).WithHint("give more characters of the id")
	}
	return all[0], nil
}

// RemoveLesson implements store.Store.
func (db *DB) RemoveLesson(ctx context.Context, account, id string) (api.Lesson, error) {
	var l api.Lesson
	err := db.relieved(func() (err error) {
		l, err = scanLesson(db.write.QueryRowContext(ctx, removeLessonSQL, account, id))
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return l, unknownLesson(id)
	case err != nil:
		return l, wrapError(ctx, err, "remove lesson %.40s", id)
	}
	return l, nil
}

// LessonsToEmbed implements store.Store.
func (db *DB) LessonsToEmbed(ctx context.Context, account, scope, model string, limit int) (have int, missing []api.Lesson, err error) {
	// In one transaction, or a lesson that gets its vector between the two statements is in neither.
	err = db.inReadTx(ctx, func(r runner) (err error) {
		if err := r.QueryRowContext(ctx, countVectorsSQL, account, scope, model).Scan(&have); err != nil {
			return wrapError(ctx, err, "count the vectors of lessons")
		}
		missing, err = list(ctx, r, "lessons", scanLesson, lessonsToEmbedSQL, account, scope, model, limit)
		return err
	})
	return have, missing, err
}

// checkVector reports why a vector cannot stand beside the stored ones of its model.
func checkVector(ctx context.Context, r runner, model string, v []float32) error {
	if err := vector.Check(v); err != nil {
		return err
	}
	var have int
	switch err := r.QueryRowContext(ctx, dimensionSQL, model).Scan(&have); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return wrapError(ctx, err, "read the dimension of vectors")
	case have != len(v):
		return api.Errorf(api.KindInvalid, "embedding model %.80s answered with vectors of %d numbers, but its stored vectors have %d", model, len(v), have).
			WithHint("The server has another model under this name: restore it, or set another name (embedding in [model]).")
	}
	return nil
}

// PutLessonVectors implements store.Store.
func (db *DB) PutLessonVectors(ctx context.Context, account string, all []store.LessonVector) error {
	return db.growTx(ctx, "vectors of lessons", func(tx *sql.Tx) error {
		for _, v := range all {
			if v.Model == "" {
				return api.Errorf(api.KindInvalid, "row of a vector of lesson %.40s: the model is missing", v.ID)
			}
			if v.Values != nil {
				if err := db.lock(ctx, tx, "vectors of lessons", v.Model); err != nil {
					return err
				}
				if err := checkVector(ctx, tx, v.Model, v.Values); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, putVectorSQL, account, v.ID, v.Failure, v.Model, len(v.Values), vector.Encode(v.Values)); err != nil {
				return wrapError(ctx, err, "store the vector of lesson %.40s", v.ID)
			}
		}
		return nil
	})
}

// nearLesson is a row and its similarity.
type nearLesson struct {
	seq   int64
	alike float64
}

// NearLessons implements store.Store. It keeps one vector in memory at a time.
func (db *DB) NearLessons(ctx context.Context, q store.VectorQuery) ([]api.Lesson, error) {
	if err := checkVector(ctx, db.read, q.Model, q.Values); err != nil {
		return nil, err
	}
	var found []nearLesson
	compare := func(r scanner) (bool, error) {
		var n nearLesson
		var id string
		var raw sql.RawBytes
		if err := r.Scan(&n.seq, &id, &raw); err != nil {
			return false, err
		}
		v, err := vector.Decode(raw)
		if err != nil {
			return false, api.Errorf(api.KindInternal, "the vector of lesson %s is corrupted: %w", id, err).WithHint("remove the lesson: hortus lesson rm %s", id)
		}
		if n.alike = vector.Cosine(v, q.Values); n.alike >= q.Least {
			found = append(found, n)
		}
		return true, nil
	}
	if err := each(ctx, db.read, "vectors of lessons", vectorsSQL, []any{q.Account, q.Scope, q.Fingerprint, q.Model, api.MaxLessonsPerScope}, compare); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b nearLesson) int { return cmp.Compare(b.alike, a.alike) })
	var out []api.Lesson
	for _, n := range found[:min(len(found), q.Limit)] {
		l, err := db.listLessons(ctx, selectLessonSQL+` WHERE seq = $1`, n.seq) // none if it was removed since
		if err != nil {
			return nil, err
		}
		out = append(out, l...)
	}
	return out, nil
}
