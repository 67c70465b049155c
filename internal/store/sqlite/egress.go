package sqlite

import (
	"context"
	"math"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const (
	insertEgressSQL = `INSERT INTO egress (account, sandbox, task, at, result, host, size, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`
	egressColumns   = `doc, seq, account, sandbox, task, at, result, host`
	// egressWalkPage is the number of decisions that WalkEgress reads at once.
	egressWalkPage = 500
)

// InsertEgress implements store.Store.
func (db egressTable) InsertEgress(ctx context.Context, all []api.EgressDecision) error {
	return insertNumbered(ctx, db.database, "decisions", insertEgressSQL, all, egressArgs, func(d *api.EgressDecision, seq int64) { d.Seq = seq }, nil)
}

// egressArgs validates a decision and returns the values of its row.
func egressArgs(d api.EgressDecision) ([]any, error) {
	switch {
	case d.Sandbox == "":
		return nil, api.Errorf(api.KindInvalid, "row of a decision: the sandbox is missing")
	case d.Op == "":
		return nil, api.Errorf(api.KindInvalid, "row of a decision about sandbox %s: the op is missing", d.Sandbox)
	case d.At.IsZero():
		return nil, api.Errorf(api.KindInvalid, "row of a decision about sandbox %s: the time is missing", d.Sandbox)
	}
	switch d.Result {
	case api.EgressAllowed, api.EgressDenied, api.EgressFailed, api.EgressWaiting, api.EgressDropped:
	default:
		return nil, api.Errorf(api.KindInvalid, "row of a decision about sandbox %s: unknown result %.64q", d.Sandbox, d.Result)
	}
	d.Seq = 0 // the column has it
	doc, err := rowjson.Marshal(d)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "decision about sandbox %s: %w", d.Sandbox, err)
	}
	return []any{d.Account, string(d.Sandbox), nullable(d.Task), toMicros(d.At), string(d.Result), d.Host, len(doc), string(doc)}, nil
}

// EgressPage implements store.Store.
func (db egressTable) EgressPage(ctx context.Context, f store.EgressFilter) ([]api.EgressDecision, store.Cursor, error) {
	return db.egressPage(ctx, f, f.Limit, f.After)
}

// egressPage reads a page of decisions.
func (db egressTable) egressPage(ctx context.Context, f store.EgressFilter, limit int, after store.Cursor) ([]api.EgressDecision, store.Cursor, error) {
	return numbered(ctx, db.database, "decisions", "egress", egressColumns, egressWhere(f), limit, after, scanEgress,
		func(d api.EgressDecision) (time.Time, int64) { return d.At, d.Seq })
}

// WalkEgress implements store.Store.
func (db egressTable) WalkEgress(ctx context.Context, f store.EgressFilter, use func(api.EgressDecision) error) error {
	if f.Limit < 0 {
		return api.Errorf(api.KindInvalid, "list decisions: the limit %d is negative", f.Limit)
	}
	left := f.Limit
	if left == 0 {
		left = math.MaxInt
	}
	for after := (store.Cursor{}); left > 0; {
		page, next, err := db.egressPage(ctx, f, min(left, egressWalkPage), after)
		if err != nil {
			return err
		}
		for _, d := range page {
			if err := use(d); err != nil {
				return err
			}
		}
		if next.IsZero() {
			return nil
		}
		after = next
		left -= len(page)
	}
	return nil
}

func egressWhere(f store.EgressFilter) (w where) {
	w.equals("account", f.Account)
	w.equals("sandbox", string(f.Sandbox))
	w.equals("task", string(f.Task))
	w.equals("result", string(f.Result))
	if below, ok := strings.CutPrefix(f.Host, "*"); ok && below != "" {
		w.conds = append(w.conds, `host LIKE ? ESCAPE '\'`)
		w.args = append(w.args, "%"+strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(below))
	} else {
		w.equals("host", f.Host)
	}
	if !f.Since.IsZero() {
		w.conds = append(w.conds, "at >= ?")
		w.args = append(w.args, toMicros(f.Since))
	}
	if !f.Until.IsZero() {
		w.conds = append(w.conds, "at < ?")
		w.args = append(w.args, toMicros(f.Until))
	}
	return w
}

func scanEgress(r scanner) (d api.EgressDecision, err error) {
	err = scanRow(r, "decision", &d, &d.Seq, &d.Account, &d.Sandbox, text(&d.Task), instant{&d.At}, &d.Result, &d.Host)
	return d, err
}
