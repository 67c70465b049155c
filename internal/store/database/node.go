package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const selectNodeSQL = `
	SELECT node.doc, node.id, node.name, node.owner, node.address, node.state, node.beat_at, now_micros() - node.beat_at FROM node`

func scanNode(r scanner) (n store.Node, err error) {
	var silence int64
	err = scanRow(r, "node", &n.Capacity, &n.ID, &n.Name, &n.Owner, &n.Address, &n.State, instant{&n.BeatAt}, &silence)
	n.Silence = (time.Duration(silence) * time.Microsecond).Abs() // it renewed its lease before the clock of the database was set back
	return n, err
}

// PutNode implements store.Store.
func (db *DB) PutNode(ctx context.Context, n store.Node) error {
	if n.ID == "" || n.Name == "" || n.Owner == "" || n.State == "" {
		return api.Errorf(api.KindInvalid, "row of node %q: it needs an id, a name, an owner and a state", n.ID)
	}
	doc, err := rowjson.Marshal(n.Capacity)
	if err != nil {
		return err
	}
	_, err = db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, db.dialect.adapt(`
		INSERT INTO node (id, name, owner, address, state, beat_at, doc) VALUES ($1, $2, $3, $4, $5, now_micros(), $6)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, owner = excluded.owner, address = excluded.address, state = excluded.state,
			beat_at = excluded.beat_at, doc = excluded.doc`),
			string(n.ID), n.Name, string(n.Owner), n.Address, string(n.State), string(doc))
	})
	if err != nil {
		return insertError(ctx, err, "node", n.Name, "owner "+string(n.Owner))
	}
	return nil
}

// Node implements store.Store.
func (db *DB) Node(ctx context.Context, id api.NodeID) (store.Node, error) {
	return get(ctx, db.read, "node", string(id), scanNode, db.dialect.adapt(selectNodeSQL+` WHERE id = $1`))
}

// Nodes implements store.Store.
func (db *DB) Nodes(ctx context.Context) ([]store.Node, error) {
	return list(ctx, db.read, "nodes", scanNode, db.dialect.adapt(selectNodeSQL+` ORDER BY name`))
}

// NodeOfOwner implements store.Store.
func (db *DB) NodeOfOwner(ctx context.Context, owner api.OwnerID) (store.Node, error) {
	return get(ctx, db.read, "node of owner", string(owner), scanNode,
		db.dialect.adapt(selectNodeSQL+` JOIN owner ON owner.node = node.id WHERE owner.id = $1`))
}

// BeatNode implements store.Store.
func (db *DB) BeatNode(ctx context.Context, id api.NodeID, owner api.OwnerID, c api.NodeCapacity) (state api.NodeState, err error) {
	doc, err := rowjson.Marshal(c)
	if err != nil {
		return "", err
	}
	sent, micros := time.Now(), int64(0)
	err = db.lease.QueryRowContext(ctx, db.dialect.adapt(`
		UPDATE node SET beat_at = now_micros(), doc = $3
		WHERE id = $1 AND owner = $2 AND EXISTS (SELECT 1 FROM owner WHERE id = $2 AND ended_at IS NULL)
		RETURNING state, now_micros()`), string(id), string(owner), string(doc)).Scan(&state, &micros)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if _, err := db.Node(ctx, id); err != nil {
			return "", err
		}
		return "", api.Errorf(api.KindConflict, "node %s is of another run of its daemon, or this run was silent for too long and others continue its work", id)
	case err != nil:
		return "", wrapError(ctx, err, "renew the lease of node %s", id)
	}
	if db.clock != nil {
		db.clock.seen(micros, sent)
	}
	return state, nil
}

// SetNodeState implements store.Store.
func (db *DB) SetNodeState(ctx context.Context, id api.NodeID, state api.NodeState) (store.Node, error) {
	_, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, `UPDATE node SET state = $2 WHERE id = $1`, string(id), string(state))
	})
	if err != nil {
		return store.Node{}, wrapError(ctx, err, "store the state of node %s", id)
	}
	return db.Node(ctx, id)
}

// RemoveNode implements store.Store.
func (db *DB) RemoveNode(ctx context.Context, id api.NodeID) error {
	return db.inTx(ctx, "node "+string(id), func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `DELETE FROM node WHERE id = $1`, string(id))
		if err == nil && !changed(r) {
			return notFound("node", string(id))
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, db.dialect.adapt(`UPDATE owner SET ended_at = now_micros() WHERE node = $1 AND ended_at IS NULL`), string(id))
		}
		if err != nil {
			return wrapError(ctx, err, "remove node %s", id)
		}
		return nil
	})
}

// OwnersElsewhere implements store.Store.
func (db *DB) OwnersElsewhere(ctx context.Context, node api.NodeID, lockPath string) ([]api.OwnerID, error) {
	return list(ctx, db.read, "owners", scanValue[api.OwnerID],
		`SELECT id FROM owner WHERE node IS NOT NULL AND node <> $1 OR node IS NULL AND lock_path <> $2 ORDER BY id`, string(node), lockPath)
}
