package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectWebhookSQL = `
		SELECT id, account, name, url, enabled, events, created_at, position FROM webhook`
	insertWebhookSQL = `
		INSERT INTO webhook (id, account, name, url, enabled, events, created_at, sealed, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, newest_lifecycle())`
	updateWebhookSQL = `
		UPDATE webhook
		SET name = $3, url = $4, enabled = $5, events = $6, sealed = coalesce($7, sealed),
			position = CASE WHEN CAST($5 AS BIGINT) = 1 AND enabled = 0 THEN newest_lifecycle() ELSE position END
		WHERE account = $1 AND id = $2`
	trimDeliveriesSQL = `
		DELETE FROM webhook_delivery
		WHERE webhook = $1 AND seq <= (
			SELECT seq FROM webhook_delivery WHERE webhook = $1
			ORDER BY seq DESC LIMIT 1 OFFSET $2)`
	// A sandbox without an account is the operator's.
	selectLifecycleSQL = `
		SELECT l.seq, l.type, l.at, l.sandbox, l.number, l.data
		FROM lifecycle AS l JOIN sandbox AS s ON s.id = l.sandbox`
)

func scanWebhook(r scanner) (w api.Webhook, err error) {
	var events []byte
	if err = r.Scan(&w.ID, &w.Account, &w.Name, &w.URL, &w.Enabled, &events, instant{&w.CreatedAt}, &w.Position); err == nil {
		err = rowjson.Unmarshal(events, &w.Events)
	}
	return w, err
}

// checkWebhook refuses what cannot be stored, and returns the types as they are stored.
func checkWebhook(w api.Webhook) (events string, err error) {
	if w.ID == "" || w.URL == "" || w.CreatedAt.IsZero() || len(w.Events) == 0 {
		return "", api.Errorf(api.KindInvalid, "a webhook needs an id, an address, types of events and a start time")
	}
	b, err := rowjson.Marshal(w.Events)
	return string(b), err
}

// webhookSecretOf is the row of a secret for the sealer. The length separates account and id.
func webhookSecretOf(account, id string) string {
	return fmt.Sprintf("webhook.secret:%d:%s:%s", len(account), account, id)
}

// InsertWebhook implements store.Store.
func (db *DB) InsertWebhook(ctx context.Context, w api.Webhook, secret string, most int) error {
	events, err := checkWebhook(w)
	if err != nil {
		return err
	}
	if secret == "" {
		return api.Errorf(api.KindInvalid, "webhook %s: the secret is missing", w.ID)
	}
	sealed := db.sealer.seal([]byte(secret), webhookSecretOf(w.Account, w.ID))
	return db.growTx(ctx, "webhook "+w.ID, func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "webhooks", w.Account); err != nil {
			return err
		}
		var others int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM webhook WHERE account = $1`, w.Account).Scan(&others); err != nil {
			return wrapError(ctx, err, "count webhooks")
		}
		if others >= most {
			return api.Errorf(api.KindExhausted, "the account has %d webhooks, which is the maximum", others).WithHint("delete one")
		}
		_, err := tx.ExecContext(ctx, db.dialect.adapt(insertWebhookSQL), w.ID, w.Account, w.Name, w.URL, w.Enabled, events, toMicros(w.CreatedAt), sealed)
		if err != nil {
			return insertError(ctx, err, "webhook", w.ID, "")
		}
		return nil
	})
}

// UpdateWebhook implements store.Store.
func (db *DB) UpdateWebhook(ctx context.Context, w api.Webhook, secret string) error {
	events, err := checkWebhook(w)
	if err != nil {
		return err
	}
	var sealed any
	if secret != "" {
		sealed = db.sealer.seal([]byte(secret), webhookSecretOf(w.Account, w.ID))
	}
	return db.changeWebhook(ctx, w.ID, false, db.dialect.adapt(updateWebhookSQL), w.Account, w.ID, w.Name, w.URL, w.Enabled, events, sealed)
}

// RemoveWebhook implements store.Store.
func (db *DB) RemoveWebhook(ctx context.Context, account, id string) error {
	return db.changeWebhook(ctx, id, true, `DELETE FROM webhook WHERE account = $1 AND id = $2`, account, id)
}

// changeWebhook runs a statement that changes one webhook, or removes it.
func (db *DB) changeWebhook(ctx context.Context, id string, removes bool, query string, args ...any) error {
	return db.sameTx(ctx, "webhook "+id, func(tx *sql.Tx, doubt bool) error {
		r, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return wrapError(ctx, err, "store webhook %.64q", id)
		}
		if !changed(r) && !(removes && doubt) {
			return notFound("webhook", id)
		}
		return nil
	})
}

// Webhook implements store.Store.
func (db *DB) Webhook(ctx context.Context, account, id string) (api.Webhook, error) {
	w, err := get(ctx, db.read, "webhook", id, scanWebhook, selectWebhookSQL+` WHERE id = $1`)
	if err == nil && w.Account != account {
		return api.Webhook{}, notFound("webhook", id)
	}
	return w, err
}

// WebhooksOf implements store.Store.
func (db *DB) WebhooksOf(ctx context.Context, account string) ([]api.Webhook, error) {
	return list(ctx, db.read, "webhooks", scanWebhook, selectWebhookSQL+` WHERE account = $1 ORDER BY seq`, account)
}

// EnabledWebhooks implements store.Store.
func (db *DB) EnabledWebhooks(ctx context.Context) ([]api.Webhook, error) {
	return list(ctx, db.read, "webhooks", scanWebhook, selectWebhookSQL+` WHERE enabled = 1 ORDER BY seq`)
}

// WebhookSecret implements store.Store.
func (db *DB) WebhookSecret(ctx context.Context, account, id string) (string, error) {
	sealed, err := get(ctx, db.read, "webhook", id, scanValue[[]byte], `SELECT sealed FROM webhook WHERE id = $1`)
	if err != nil {
		return "", err
	}
	plain, err := db.sealer.open(sealed, webhookSecretOf(account, id))
	if err != nil {
		return "", api.Errorf(api.KindConflict, "the secret of webhook %s cannot be decrypted: it was encrypted with another key, or is damaged", id).
			WithHint("set signatureSecret again")
	}
	return string(plain), nil
}

// PutDelivery implements store.Store.
func (db *DB) PutDelivery(ctx context.Context, d api.WebhookDelivery, most int) error {
	doc, err := rowjson.Marshal(d)
	if err != nil {
		return api.Errorf(api.KindInvalid, "delivery %s: %w", d.ID, err)
	}
	return db.inTx(ctx, "delivery "+d.ID, func(tx *sql.Tx) error {
		webhook, err := get(ctx, tx, "webhook", d.Webhook, scanValue[int64], db.dialect.adapt(`SELECT seq FROM webhook WHERE id = $1 FOR UPDATE`))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO webhook_delivery (webhook, doc) VALUES ($1, $2)`, webhook, string(doc))
		if err == nil {
			_, err = tx.ExecContext(ctx, trimDeliveriesSQL, webhook, most)
		}
		if err == nil && d.Last {
			_, err = tx.ExecContext(ctx, `UPDATE webhook SET position = $2 WHERE seq = $1 AND position < $2`, webhook, d.Event)
		}
		if err != nil {
			return wrapError(ctx, err, "store delivery %s", d.ID)
		}
		return nil
	})
}

// Deliveries implements store.Store.
func (db *DB) Deliveries(ctx context.Context, account, webhook string, limit int) ([]api.WebhookDelivery, error) {
	scan := func(r scanner) (d api.WebhookDelivery, err error) {
		var doc []byte
		if err = r.Scan(&doc); err == nil {
			err = rowjson.Unmarshal(doc, &d)
		}
		return d, err
	}
	return list(ctx, db.read, "deliveries", scan, `
		SELECT doc FROM webhook_delivery
		WHERE webhook = (SELECT seq FROM webhook WHERE account = $1 AND id = $2)
		ORDER BY seq DESC LIMIT $3`, account, webhook, limit)
}

// LifecycleEvents implements store.Store.
func (db *DB) LifecycleEvents(ctx context.Context, f api.LifecycleFilter) ([]api.LifecycleEvent, error) {
	if f.Limit < 1 || f.Offset < 0 {
		return nil, api.Errorf(api.KindInvalid, "list lifecycle events: the limit %d is not positive, or the offset %d is negative", f.Limit, f.Offset)
	}
	if err := db.ahead.flushRead(ctx); err != nil {
		return nil, err
	}
	if _, err := db.NewestLifecycle(ctx); err != nil { // which numbers them
		return nil, err
	}
	w := ofAccount(f.Account)
	w.and("l.seq > ?", f.After)
	w.equals("l.sandbox", string(f.Sandbox))
	if len(f.Types) > 0 {
		var types []any
		for _, t := range f.Types {
			types = append(types, string(t))
		}
		w.and("l.type IN (?"+strings.Repeat(", ?", len(types)-1)+")", types...)
	}
	order := "l.seq DESC"
	if f.Ascending {
		order = "l.seq"
	}
	q, args := w.query(selectLifecycleSQL, order, f.Limit)
	q += " OFFSET " + strconv.Itoa(f.Offset)
	all, err := list(ctx, db.read, "lifecycle events", func(r scanner) (e api.LifecycleEvent, err error) {
		var data []byte
		err = r.Scan(&e.Seq, &e.Type, instant{&e.At}, &e.Sandbox.ID, &e.Number, &data)
		e.Data = json.RawMessage(data)
		return e, err
	}, q, args...)
	rows := map[api.SandboxID]api.Sandbox{}
	for i, e := range all {
		row, ok := rows[e.Sandbox.ID]
		if !ok {
			if row, err = db.Sandbox(ctx, e.Sandbox.ID); api.KindOf(err) == api.KindNotFound {
				row, err = e.Sandbox, nil // removed meanwhile
			} else if err != nil {
				return nil, err
			}
			rows[e.Sandbox.ID] = row
		}
		all[i].Sandbox = row
	}
	return all, err
}

// NewestLifecycle implements store.Store.
func (db *DB) NewestLifecycle(ctx context.Context) (int64, error) {
	n, err := scanValue[int64](db.read.QueryRowContext(ctx, db.dialect.adapt("SELECT newest_lifecycle()")))
	if err != nil {
		return 0, wrapError(ctx, err, "read the newest lifecycle event")
	}
	return n, nil
}
