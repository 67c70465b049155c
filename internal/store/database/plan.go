package database

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

const (
	selectPlanSQL = `
		SELECT id, account, repository, owner, done, created_at, ended_at, doc
		FROM plan`
	insertPlanSQL = `
		INSERT INTO plan (id, account, repository, owner, done, created_at, ended_at, doc)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		RETURNING seq`
	updatePlanSQL = `
		UPDATE plan
		SET owner = $3, done = $4, ended_at = $5, doc = $6
		WHERE id = $1 AND owner = $2
		RETURNING seq`
	putItemSQL = `
		INSERT INTO plan_item (plan, n, doc)
		VALUES ($1, $2, $3)
		ON CONFLICT (plan, n) DO UPDATE SET doc = $3`
	dropItemsSQL = `
		DELETE FROM plan_item WHERE plan = $1 AND n > $2`
	removePlanEventsSQL = `
		DELETE FROM event
		WHERE stream_kind = 'plan'
			AND stream_id IN (SELECT id FROM plan WHERE done = 1 AND ended_at < $1)`
	removePlansSQL = `
		DELETE FROM plan WHERE done = 1 AND ended_at < $1`
)

func scanPlan(r scanner) (p store.Plan, err error) {
	err = r.Scan(&p.ID, &p.Account, &p.Repository, &p.Owner, &p.Done, instant{&p.CreatedAt}, instant{&p.EndedAt}, &p.Doc)
	return p, err
}

func scanPlanItem(r scanner) (it store.PlanItem, err error) {
	err = r.Scan(&it.N, &it.Doc)
	return it, err
}

// checkPlan refuses what cannot be stored.
func checkPlan(p store.Plan, items []store.PlanItem) error {
	switch {
	case p.ID == "" || p.Repository == "" || p.Owner == "" || p.CreatedAt.IsZero() || len(p.Doc) == 0:
		return api.Errorf(api.KindInvalid, "a plan needs an id, a repository, an owner, a start time and a document")
	case p.Done == p.EndedAt.IsZero():
		return api.Errorf(api.KindInvalid, "plan %s: it is done if it has an end time, and only then", p.ID)
	case slices.ContainsFunc(p.Events, func(e api.Event) bool {
		return e.Stream.ID != string(p.ID) || e.Type == "" || e.At.IsZero() || len(e.Data) > store.MaxPlanDoc
	}):
		return api.Errorf(api.KindInvalid, "plan %s: an event needs the stream of the plan, a type, a time and at most %d bytes", p.ID, store.MaxPlanDoc)
	case len(p.Doc) > store.MaxPlanDoc:
		return api.Errorf(api.KindExhausted, "the document of plan %s has %d bytes; the maximum is %d", p.ID, len(p.Doc), store.MaxPlanDoc)
	}
	for _, it := range items {
		if it.N < 1 || len(it.Doc) == 0 || len(it.Doc) > store.MaxPlanDoc {
			return api.Errorf(api.KindInvalid, "item %d of plan %s: its number or its document is out of range", it.N, p.ID)
		}
	}
	return nil
}

// InsertPlan implements store.Store.
func (db *DB) InsertPlan(ctx context.Context, p store.Plan, most int, items ...store.PlanItem) error {
	if err := checkPlan(p, items); err != nil {
		return err
	}
	return db.growTx(ctx, "plan "+string(p.ID), func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "plans", p.Account); err != nil {
			return err
		}
		var others int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM plan WHERE account = $1 AND done = 0`, p.Account).Scan(&others)
		if err != nil {
			return wrapError(ctx, err, "count plans")
		}
		if others >= most {
			return api.Errorf(api.KindExhausted, "the account has %d plans that are not done, which is the maximum", others).WithHint("cancel one: hortus plan cancel PLAN")
		}
		var seq int64
		err = tx.QueryRowContext(ctx, insertPlanSQL, string(p.ID), p.Account, p.Repository, string(p.Owner), p.Done,
			toMicros(p.CreatedAt), toMicros(p.EndedAt), p.Doc).Scan(&seq)
		if err != nil {
			return insertError(ctx, err, "plan", string(p.ID), "owner "+string(p.Owner))
		}
		return db.putParts(ctx, tx, p, seq, items, false)
	})
}

// UpdatePlan implements store.Store.
func (db *DB) UpdatePlan(ctx context.Context, owner api.OwnerID, p store.Plan, items ...store.PlanItem) error {
	if err := checkPlan(p, items); err != nil {
		return err
	}
	return db.sameTx(ctx, "plan "+string(p.ID), func(tx *sql.Tx, doubt bool) error {
		var seq int64
		err := db.updatePlan.queryRow(ctx, tx, string(p.ID), string(owner), string(p.Owner), p.Done, toMicros(p.EndedAt), p.Doc).Scan(&seq)
		if err == nil {
			return db.putParts(ctx, tx, p, seq, items, doubt)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return insertError(ctx, err, "plan", string(p.ID), "owner "+string(p.Owner))
		}
		have, err := get(ctx, tx, "plan", string(p.ID), scanPlan, selectPlanSQL+` WHERE id = $1`)
		if err != nil || doubt && have.Owner == p.Owner && bytes.Equal(have.Doc, p.Doc) {
			return err
		}
		return api.Errorf(api.KindConflict, "plan %s belongs to %s, not to %s", have.ID, have.Owner, owner)
	})
}

// putParts stores what comes with the row of a plan. If doubt is true, it may have been stored already.
func (db *DB) putParts(ctx context.Context, tx *sql.Tx, p store.Plan, seq int64, items []store.PlanItem, doubt bool) error {
	for _, it := range items {
		if _, err := db.putItem.exec(ctx, tx, seq, it.N, it.Doc); err != nil {
			return wrapError(ctx, err, "store item %d of plan %s", it.N, p.ID)
		}
	}
	if p.Items > 0 {
		if _, err := db.dropItems.exec(ctx, tx, seq, p.Items); err != nil {
			return wrapError(ctx, err, "remove items of plan %s", p.ID)
		}
	}
	add := db.appendIn
	if doubt {
		add = db.appendOnce
	}
	for i := range p.Events {
		if err := add(ctx, tx, &p.Events[i]); err != nil {
			return wrapError(ctx, err, "store event %s of plan %s", p.Events[i].Type, p.ID)
		}
	}
	return nil
}

// Plan implements store.Store.
func (db *DB) Plan(ctx context.Context, id api.PlanID) (store.Plan, error) {
	return get(ctx, db.read, "plan", string(id), scanPlan, selectPlanSQL+` WHERE id = $1`)
}

// PlansOf implements store.Store.
func (db *DB) PlansOf(ctx context.Context, account string, all bool, limit int) ([]store.Plan, error) {
	if limit < 1 {
		return nil, api.Errorf(api.KindInvalid, "list plans: the limit %d is not positive", limit)
	}
	return list(ctx, db.read, "plans", scanPlan, selectPlanSQL+`
		WHERE account = $1 AND ($2 = 1 OR done = 0)
		ORDER BY seq DESC LIMIT $3`, account, all, limit)
}

// OpenPlans implements store.Store.
func (db *DB) OpenPlans(ctx context.Context, repository string) ([]store.Plan, error) {
	return list(ctx, db.read, "plans", scanPlan, selectPlanSQL+`
		WHERE done = 0 AND ($1 = '' OR repository = $1)
		ORDER BY seq`, repository)
}

// PlanItems implements store.Store.
func (db *DB) PlanItems(ctx context.Context, id api.PlanID) ([]store.PlanItem, error) {
	return list(ctx, db.read, "items of plan "+string(id), scanPlanItem, `
		SELECT n, doc FROM plan_item
		WHERE plan = (SELECT seq FROM plan WHERE id = $1)
		ORDER BY n`, string(id))
}

// PrunePlans implements store.Store.
func (db *DB) PrunePlans(ctx context.Context, before time.Time) (n int, err error) {
	var events int
	err = db.inTx(ctx, "the removal of plans", func(tx *sql.Tx) error {
		n = 0 // it may run again
		if err := (removal{removePlanEventsSQL, &events}).run(ctx, tx, before.UnixMicro()); err != nil {
			return err
		}
		return removal{removePlansSQL, &n}.run(ctx, tx, before.UnixMicro())
	})
	return n, err
}
