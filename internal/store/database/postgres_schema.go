package database

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"hortus.dev/api"
)

// postgresSchema brings a database to the version that its steps lead to. The version is the row of a table.
type postgresSchema struct {
	place string
	steps []string
	pool  *sql.DB
	log   *slog.Logger
}

// prepare creates the tables of an empty database and migrates those of an older version. If there is nothing to do, it
// only reads.
func (s *postgresSchema) prepare(ctx context.Context) error {
	have, err := s.version(ctx, s.pool)
	if err != nil || have == len(s.steps) {
		return err
	}
	return s.migrate(ctx)
}

// version returns the version of a database, 0 for an empty one. It refuses a database that is not ours, or of a version
// that this binary cannot read.
func (s *postgresSchema) version(ctx context.Context, r runner) (version int, err error) {
	var ours, others int
	err = r.QueryRowContext(ctx, `
		SELECT count(*) FILTER (WHERE tablename = 'schema_version'), count(*) FILTER (WHERE tablename <> 'schema_version')
		FROM pg_tables WHERE schemaname = current_schema()`).Scan(&ours, &others)
	if err == nil && ours > 0 {
		err = r.QueryRowContext(ctx, `SELECT version FROM schema_version`).Scan(&version)
	}
	switch {
	case failureOf(err) == refused:
		return 0, s.denied(err)
	case err != nil:
		return 0, wrapError(ctx, err, "read the schema of %s", s.place)
	case ours == 0 && others > 0:
		return 0, api.Errorf(api.KindConflict, "%s has %d tables of another program", s.place, others).
			WithHint("create a database for hortus alone, and set it in store.url")
	case version > len(s.steps):
		return 0, api.Errorf(api.KindConflict, "%s has schema version %d, this binary supports versions up to %d", s.place, version, len(s.steps)).
			WithHint("use the newer binary that wrote the database, or another database")
	}
	return version, nil
}

// migrate runs all pending steps in one transaction. If two daemons migrate, the second one waits and finds nothing to do.
func (s *postgresSchema) migrate(ctx context.Context) error {
	start, newest := time.Now(), len(s.steps)
	tx, err := s.pool.BeginTx(ctx, nil)
	if err != nil {
		return wrapError(ctx, err, "begin the migration of %s", s.place)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('hortus schema', 0))`); err != nil {
		return wrapError(ctx, err, "lock %s for its migration", s.place)
	}
	have, err := s.version(ctx, tx)
	if err != nil || have == newest {
		return err
	}
	steps := s.steps[have:]
	if have == 0 {
		steps = append([]string{`CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (0)`}, steps...)
	}
	for _, step := range steps {
		if _, err = tx.ExecContext(ctx, step); err != nil {
			break
		}
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE schema_version SET version = $1`, newest)
	}
	if err == nil {
		err = tx.Commit()
	}
	switch {
	case failureOf(err) == refused:
		return s.denied(err)
	case err != nil:
		return wrapError(ctx, err, "migrate %s from version %d to %d", s.place, have, newest).
			WithHint("nothing was changed; the binary that wrote the database can still use it")
	}
	s.log.Info("database migrated", "place", s.place, "from", have, "to", newest, "took", time.Since(start))
	return nil
}

// denied explains that the user may not create or read tables.
func (s *postgresSchema) denied(err error) error {
	return api.Errorf(api.KindDenied, "%s: the user may not create or use tables: %w", s.place, err).
		WithHint("make the user the owner of the database: ALTER DATABASE name OWNER TO user")
}
