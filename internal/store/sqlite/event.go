package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"hortus.dev/api"
)

// One statement is one transaction, so the number cannot be given twice. With
// the primary key's order, max is one step to the end of the stream.
const appendEventSQL = `INSERT INTO event (stream_kind, stream_id, seq, parent, at, type, data)
	VALUES (?1, ?2,
		(SELECT coalesce(max(seq), 0) + 1 FROM event WHERE stream_kind = ?1 AND stream_id = ?2),
		CASE WHEN ?1 = 'sandbox' THEN coalesce(?6, (SELECT task FROM sandbox WHERE id = ?2)) END,
		?3, ?4, ?5)
	RETURNING seq`

const readEventsSQL = `SELECT seq, at, type, data FROM event
	WHERE stream_kind = ?1 AND stream_id = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4`

// maxPage bounds the data of one page of events, in bytes; the event that goes
// over it is the last one of its page.
const maxPage = 1 << 20

// AppendEvent stores an event under the next number of its stream. data is JSON
// or nil and is kept as it is, byte for byte. A context that ends before the
// append begins prevents it; one that ends later does not, so that it is never
// in doubt whether a number was given.
func (db eventTable) AppendEvent(ctx context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, failed(ctx, err, "store event %s of %s %.64q", t, s.Kind, s.ID)
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
		return 0, failed(ctx, err, "store event %s of %s %.64q", t, s.Kind, s.ID)
	}
	return seq, nil
}

// ReadEvents gives the events after a number, in order, at most limit and about
// 1 MiB of data, but one at least if there is one. A limit below 1 is
// KindInvalid.
func (db eventTable) ReadEvents(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error) {
	if limit < 1 {
		return nil, api.Errorf(api.KindInvalid, "read events of %s %.64q: the limit %d is not positive", s.Kind, s.ID, limit)
	}
	fail := func(err error) error { return failed(ctx, err, "read events of %s %.64q", s.Kind, s.ID) }
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
