package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"hortus.dev/api"
)

// A statement is a transaction, so no number is used twice. In the order of the primary
// key, max is one step to the end of the stream.
const appendEventSQL = `
	INSERT INTO event (stream_kind, stream_id, seq, parent, at, type, data)
	VALUES (?1, ?2,
		(SELECT coalesce(max(seq), 0) + 1 FROM event WHERE stream_kind = ?1 AND stream_id = ?2),
		CASE WHEN ?1 = 'sandbox' THEN coalesce(?6, (SELECT task FROM sandbox WHERE id = ?2)) END,
		?3, ?4, ?5)
	RETURNING seq`

const readEventsSQL = `
	SELECT seq, at, type, data FROM event
	WHERE stream_kind = ?1 AND stream_id = ?2 AND seq > ?3
	ORDER BY seq LIMIT ?4`

// maxPage is the maximum size of a page of events, in bytes; the event that exceeds it is
// the last one of its page.
const maxPage = 1 << 20

// AppendEvent implements store.Store. A context that ends after the append began does not
// prevent it, so it is never in doubt whether a number was used.
func (db *DB) AppendEvent(ctx context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, wrapError(ctx, err, "store event %s of %s %.64q", t, s.Kind, s.ID)
	}
	ctx = context.WithoutCancel(ctx)
	var blob any
	if data != nil {
		blob = []byte(data)
	}
	var seq int64
	var parent any
	if s.Kind == api.StreamSandbox { // its row may not be in the database yet
		parent = db.ahead.taskOf(s.ID)
	}
	err := db.appendEvent.QueryRowContext(ctx, string(s.Kind), s.ID, at.UnixMicro(), string(t), blob, parent).Scan(&seq)
	if err != nil {
		return 0, wrapError(ctx, err, "store event %s of %s %.64q", t, s.Kind, s.ID)
	}
	return seq, nil
}

// ReadEvents implements store.Store.
func (db *DB) ReadEvents(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error) {
	if limit < 1 {
		return nil, api.Errorf(api.KindInvalid, "read events of %s %.64q: the limit %d is not positive", s.Kind, s.ID, limit)
	}
	fail := func(err error) error { return wrapError(ctx, err, "read events of %s %.64q", s.Kind, s.ID) }
	rows, err := db.readEvents.QueryContext(ctx, string(s.Kind), s.ID, after, limit)
	if err != nil {
		return nil, fail(err)
	}
	defer rows.Close()
	var page []api.Event
	for size := 0; size < maxPage && rows.Next(); {
		e := api.Event{Stream: s}
		var at int64
		var data []byte
		if err := rows.Scan(&e.Seq, &at, &e.Type, &data); err != nil {
			return nil, fail(err)
		}
		e.At = time.UnixMicro(at).UTC()
		e.Data = data
		size += len(data)
		page = append(page, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fail(err)
	}
	return page, nil
}
