package lessons

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Table has the lessons of one database.
type Table struct {
	Write, Read *sql.DB
	// Explain gives an error of the driver its kind.
	Explain func(ctx context.Context, err error, format string, args ...any) *api.Error
}

const (
	columns = `id, account, scope, fingerprint, failure, fix, task, seen, offered, helped, learned_at, offered_at,
		coalesce((SELECT model FROM lesson_vector WHERE lesson_vector.lesson = lesson.seq AND dimension > 0), '')`
	putSQL = `INSERT INTO lesson (id, account, scope, fingerprint, failure, fix, task, learned_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
		ON CONFLICT (account, scope, fingerprint) DO UPDATE SET
			failure = ?5, fix = ?6, seen = seen + (task <> ?7), task = ?7, learned_at = ?8
		RETURNING ` + columns
	// The least useful go first: those that were offered and never helped, and last those that helped; of each, those
	// that nobody needed for the longest time.
	trimSQL = `DELETE FROM lesson WHERE seq IN (
		SELECT seq FROM lesson WHERE account = ?1 AND scope = ?2 AND fingerprint <> ?3
		ORDER BY (offered > 0 AND helped = 0) DESC, helped > 0, max(learned_at, coalesce(offered_at, 0)), seq
		LIMIT max(0, (SELECT count(*) FROM lesson WHERE account = ?1 AND scope = ?2) - ?4))`
	sameSQL    = `SELECT ` + columns + ` FROM lesson WHERE account = ? AND scope = ? AND fingerprint = ?`
	similarSQL = `SELECT ` + columns + ` FROM lesson JOIN (SELECT rowid, rank FROM lesson_text WHERE lesson_text MATCH ?4) AS found ON found.rowid = lesson.seq
		WHERE account = ?1 AND scope = ?2 AND fingerprint <> ?3 ORDER BY found.rank, seq DESC LIMIT ?5`
	countSQL = `UPDATE lesson SET offered = offered + 1, helped = helped + ?3, offered_at = ?4 WHERE account = ?1 AND id = ?2`
	pageSQL  = `SELECT ` + columns + ` FROM lesson WHERE (?1 = '' OR account = ?1) AND (?2 = '' OR scope = ?2)
		AND (?3 = 0 OR seq < ?3) ORDER BY seq DESC LIMIT ?4`
	findSQL   = `SELECT ` + columns + ` FROM lesson WHERE (?1 = '' OR account = ?1) AND (id >= ?2 AND id < ?3 OR id >= ?4 AND id < ?5) ORDER BY id LIMIT 2`
	removeSQL = `DELETE FROM lesson WHERE account = ?1 AND id = ?2 RETURNING ` + columns
)

func scan(s interface{ Scan(...any) error }) (l api.Lesson, err error) {
	var learned int64
	var offered sql.NullInt64
	err = s.Scan(&l.ID, &l.Account, &l.Scope, &l.Fingerprint, &l.Failure, &l.Fix, &l.Task, &l.Seen, &l.Offered, &l.Helped, &learned, &offered, &l.Vector)
	l.LearnedAt = time.UnixMicro(learned).UTC()
	if offered.Valid {
		l.OfferedAt = time.UnixMicro(offered.Int64).UTC()
	}
	return l, err
}

func (t Table) list(ctx context.Context, query string, args ...any) (all []api.Lesson, err error) {
	rows, err := t.Read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, t.Explain(ctx, err, "list lessons")
	}
	defer rows.Close()
	for rows.Next() {
		l, err := scan(rows)
		if err != nil {
			return nil, t.Explain(ctx, err, "list lessons")
		}
		all = append(all, l)
	}
	if err := rows.Err(); err != nil {
		return nil, t.Explain(ctx, err, "list lessons")
	}
	return all, nil
}

// PutLesson implements store.Store.
func (t Table) PutLesson(ctx context.Context, l api.Lesson) (api.Lesson, error) {
	switch {
	case l.ID == "" || l.Scope == "" || l.Fingerprint == "" || l.Task == "" || l.LearnedAt.IsZero():
		return l, api.Errorf(api.KindInvalid, "row of a lesson: an identifier, its scope, its fingerprint, its task or its time is missing")
	case l.Failure == "" || len(l.Failure) > api.MaxLessonFailure || l.Fix == "" || len(l.Fix) > api.MaxLessonFix:
		return l, api.Errorf(api.KindInvalid, "row of lesson %s: the failure or the fix is missing or too long", l.ID)
	}
	tx, err := t.Write.BeginTx(ctx, nil)
	if err != nil {
		return l, t.Explain(ctx, err, "store a lesson")
	}
	defer tx.Rollback() // does nothing after Commit
	l, err = scan(tx.QueryRowContext(ctx, putSQL, l.ID, l.Account, l.Scope, l.Fingerprint, l.Failure, l.Fix, string(l.Task), l.LearnedAt.UnixMicro()))
	if err == nil {
		_, err = tx.ExecContext(ctx, trimSQL, l.Account, l.Scope, l.Fingerprint, api.MaxLessonsPerScope)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return l, t.Explain(ctx, err, "store a lesson")
	}
	return l, nil
}

// SimilarLessons implements store.Store.
func (t Table) SimilarLessons(ctx context.Context, q api.LessonQuery) ([]api.Lesson, error) {
	all, err := t.list(ctx, sameSQL, q.Account, q.Scope, q.Fingerprint)
	if err != nil || len(q.Words) == 0 || len(all) >= q.Limit {
		return all, err
	}
	like, err := t.list(ctx, similarSQL, q.Account, q.Scope, q.Fingerprint, match(q.Words), q.Limit-len(all))
	return append(all, like...), err
}

// match is a full-text query for any of some words. Each is quoted, so that nothing in it is an operator.
func match(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + strings.ReplaceAll(strings.ReplaceAll(w, "\x00", ""), `"`, `""`) + `"`
	}
	return strings.Join(quoted, " OR ")
}

// CountLessons implements store.Store.
func (t Table) CountLessons(ctx context.Context, account string, ids []string, helped bool, at time.Time) error {
	n := 0
	if helped {
		n = 1
	}
	tx, err := t.Write.BeginTx(ctx, nil)
	if err != nil {
		return t.Explain(ctx, err, "count lessons")
	}
	defer tx.Rollback() // does nothing after Commit
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, countSQL, account, id, n, at.UnixMicro()); err != nil {
			return t.Explain(ctx, err, "count lesson %s", id)
		}
	}
	if err := tx.Commit(); err != nil {
		return t.Explain(ctx, err, "count lessons")
	}
	return nil
}

// LessonPage implements store.Store.
func (t Table) LessonPage(ctx context.Context, account, scope string, limit int, after store.Cursor) ([]api.Lesson, store.Cursor, error) {
	var seq int64
	if !after.IsZero() {
		var err error
		if seq, err = strconv.ParseInt(after.ID, 10, 64); err != nil || seq < 1 {
			return nil, store.Cursor{}, api.Errorf(api.KindInvalid, "the cursor is not one of a list of lessons").
				WithHint("omit it to start at the beginning of the list")
		}
	}
	all, err := t.list(ctx, pageSQL, account, scope, seq, limit+1)
	if err != nil || len(all) <= limit {
		return all, store.Cursor{}, err
	}
	all = all[:limit]
	last := all[limit-1]
	if err := t.Read.QueryRowContext(ctx, `SELECT seq FROM lesson WHERE id = ?`, last.ID).Scan(&seq); err != nil {
		if errors.Is(err, sql.ErrNoRows) { // removed since: what follows is not known
			return all, store.Cursor{}, nil
		}
		return nil, store.Cursor{}, t.Explain(ctx, err, "list lessons")
	}
	id := strconv.FormatInt(seq, 10)
	return all, store.Cursor{At: last.LearnedAt, ID: strings.Repeat("0", api.IDLen-len(id)) + id}, nil
}

// FindLesson implements store.Store.
func (t Table) FindLesson(ctx context.Context, account, prefix string) (api.Lesson, error) {
	if prefix == "" || len(prefix) > api.IDLen {
		return api.Lesson{}, api.Errorf(api.KindNotFound, "unknown lesson %.40q", prefix).WithHint("list them: hortus lesson ls")
	}
	all, err := t.list(ctx, findSQL, account, prefix, prefix+"\xff", "l"+prefix, "l"+prefix+"\xff")
	switch {
	case err != nil:
		return api.Lesson{}, err
	case len(all) == 0:
		return api.Lesson{}, api.Errorf(api.KindNotFound, "unknown lesson %.40q", prefix).WithHint("list them: hortus lesson ls")
	case len(all) > 1:
		return api.Lesson{}, api.Errorf(api.KindInvalid, "lesson %q is ambiguous: %s, %s", prefix, all[0].ID, all[1].ID).WithHint("give more characters of the id")
	}
	return all[0], nil
}

// RemoveLesson implements store.Store.
func (t Table) RemoveLesson(ctx context.Context, account, id string) (api.Lesson, error) {
	l, err := scan(t.Write.QueryRowContext(ctx, removeSQL, account, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return l, api.Errorf(api.KindNotFound, "unknown lesson %.40q", id).WithHint("list them: hortus lesson ls")
	case err != nil:
		return l, t.Explain(ctx, err, "remove lesson %.40s", id)
	}
	return l, nil
}
