package database

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
)

const (
	// flushDelay is the time without a new row after which pending rows are flushed. A
	// command that ends within it costs one insert, and the transaction does not compete
	// with the command for the processors.
	flushDelay = 10 * time.Millisecond
	// maxFlushDelay is the maximum time that a row is pending.
	maxFlushDelay = 100 * time.Millisecond
	// flushRetry is the time between two attempts if the database fails.
	flushRetry = time.Second
	// maxPendingRows and maxAheadFile (bytes) bound what is pending: the writer that
	// exceeds one flushes.
	maxPendingRows = 1024
	maxAheadFile   = 4 << 20
	// flushTimeout is the timeout of one transaction.
	flushTimeout = 20 * time.Second
)

// ahead stores rows of sandboxes and commands in a file before they are stored in the
// database. A write costs one system call instead of a transaction. A read flushes
// pending rows first, so it sees every row that was stored before it.
//
// It accepts only rows that the database cannot refuse: rows of an owner, sandbox or
// command that this process stored itself and that is not final. Everything else is
// written to the database at once.
//
// In a database that other daemons use, too, it stores commands only: others look for
// sandboxes. Commands are in the database before the next row of their sandbox is, and
// they are refused (putExecSQL) once another daemon has ended or taken over the sandbox.
type ahead struct {
	db  *DB
	log *slog.Logger
	// shared is true if other daemons use the database.
	shared bool

	// pending is the number of rows that no transaction has committed.
	pending atomic.Int64
	// applying is held while a batch of the queue is committed, so that batches are
	// committed in order.
	applying sync.Mutex
	// flushed is how many of the rows that were ever queued are committed; applying guards it.
	flushed uint64

	mu        sync.Mutex
	queued    uint64   // rows that were ever queued
	header    string   // of the file
	file      *os.File // nil once closed
	broken    bool     // the end of the file is damaged: append nothing
	size      int64
	buf       []byte
	queue     []record
	position  map[rowKey]int // of each row in the queue
	owners    map[string]bool
	sandboxes map[string]*liveSandbox // that are not final
	timer     *time.Timer
	scheduled bool
	deadline  time.Time      // of the queue's rows; zero while the timer waits to retry
	timerRuns sync.WaitGroup // runs of the timer's function
}

// liveSandbox is a sandbox that this process stored and that is not final.
type liveSandbox struct {
	owner, task any
	execs       map[string]bool // that are not final
}

// ofSandboxes is what reads of sandboxes flush: nil if their rows are in the database.
func (a *ahead) ofSandboxes() *ahead {
	if a == nil || a.shared {
		return nil
	}
	return a
}

// forget has the rows of a sandbox written to the database at once: it is another owner's.
func (a *ahead) forget(id api.SandboxID) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sandboxes, string(id))
}

// stored notes a row of a sandbox that was stored in the database at once.
func (a *ahead) stored(r record) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner, _ := r.args[1].(string); r.args[1] == nil || a.owners[owner] {
		a.remember(r)
	} else {
		delete(a.sandboxes, r.id())
	}
}

// put stores a row in the file and returns true. It returns false if the row must be
// written to the database instead; pending rows are flushed then.
func (a *ahead) put(ctx context.Context, r record) (bool, error) {
	if a == nil {
		return false, nil
	}
	if err := ctx.Err(); err != nil {
		return true, wrapError(ctx, err, "store %s %s", r.kind(), r.id())
	}
	a.mu.Lock()
	known := a.file != nil && !a.broken && a.accepts(r)
	if !known {
		if r.op == updateSandboxOp && (!a.shared || r.isFinal()) {
			delete(a.sandboxes, r.id()) // its next state is unknown here, or final
		}
		a.mu.Unlock()
		if a.shared && r.op == insertSandboxOp {
			return false, nil // nothing of it is pending
		}
		return false, a.flush(ctx)
	}
	kept := r
	if a.shared {
		kept = record{putExecOp, append(slices.Clip(r.args), a.sandboxes[r.sandbox()].owner)}
	}
	add := func() error { return a.appendRecord(kept) }
	var err error
	if r.op == updateSandboxOp || r.op == updateExecOp {
		err = a.db.relieved(add)
	} else if err = a.db.mayGrow(r.kind() + " " + r.id()); err == nil {
		err = add()
	}
	if err != nil {
		a.mu.Unlock()
		if a.shared { // the database is not on the disk that failed
			return false, a.flush(ctx)
		}
		return true, err
	}
	a.remember(r)
	a.enqueue(kept)
	full := len(a.queue) >= maxPendingRows || a.size >= maxAheadFile
	a.mu.Unlock()
	if full {
		// The row is stored. flushLater logs an error and retries.
		_ = a.flush(context.Background())
	}
	return true, nil
}

// accepts reports whether the database cannot refuse a row. The caller holds the lock.
func (a *ahead) accepts(r record) bool {
	b := a.sandboxes[r.sandbox()]
	switch r.op {
	case insertSandboxOp:
		owner, _ := r.args[1].(string)
		return !a.shared && b == nil && (r.args[1] == nil || a.owners[owner])
	case updateSandboxOp:
		return !a.shared && b != nil && b.owner == r.args[1]
	case insertExecOp:
		return b != nil && !b.execs[r.id()]
	case updateExecOp:
		return b != nil && b.execs[r.id()]
	}
	return false
}

// remember updates the known sandboxes and commands with a stored row. The caller
// holds the lock.
func (a *ahead) remember(r record) {
	id, state := r.id(), r.args[2]
	switch r.op {
	case insertSandboxOp, updateSandboxOp:
		if r.isFinal() {
			delete(a.sandboxes, id)
			return
		}
		b := a.sandboxes[id]
		if b == nil {
			b = &liveSandbox{execs: map[string]bool{}}
			a.sandboxes[id] = b
		}
		b.owner, b.task = r.args[1], r.args[3]
	case insertExecOp, updateExecOp:
		b := a.sandboxes[r.sandbox()]
		if state == string(api.ExecRunning) {
			b.execs[id] = true
		} else {
			delete(b.execs, id)
		}
	}
}

// enqueue adds a row to the queue, or replaces its pending version: an insert and an
// update have the same values in the same order. The caller holds the lock.
func (a *ahead) enqueue(r record) {
	if at, ok := a.position[r.key()]; ok {
		a.queue[at].args = r.args
	} else {
		a.position[r.key()] = len(a.queue)
		a.queue = append(a.queue, r)
		a.pending.Add(1)
	}
	a.queued++
	a.scheduleFlush()
}

// addOwner accepts rows of an owner from now on.
func (a *ahead) addOwner(id api.OwnerID) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owners[string(id)] = true
}

// taskOf returns the task of a sandbox whose row may be pending, or nil.
func (a *ahead) taskOf(id string) any {
	if a == nil || a.pending.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.sandboxes[id]; b != nil {
		return b.task
	}
	if at, ok := a.position[rowKey{id: id}]; ok {
		return a.queue[at].args[3]
	}
	return nil
}

// schedule calls flushLater once, after a delay. The caller holds the lock.
func (a *ahead) schedule(after time.Duration) {
	if !a.scheduled && a.file != nil {
		a.scheduled = true
		a.timerRuns.Add(1)
		a.timer.Reset(after)
	}
}

// scheduleFlush flushes flushDelay after the last row, at most maxFlushDelay after the
// first. The caller holds the lock.
func (a *ahead) scheduleFlush() {
	switch now := time.Now(); {
	case !a.scheduled:
		a.schedule(flushDelay)
		a.deadline = now.Add(maxFlushDelay)
	case a.deadline.IsZero(): // waiting to retry
	case a.timer.Stop(): // otherwise it runs now
		a.timer.Reset(min(flushDelay, a.deadline.Sub(now)))
	}
}

func (a *ahead) flushLater() {
	defer a.timerRuns.Done()
	a.mu.Lock()
	a.scheduled, a.deadline = false, time.Time{}
	a.mu.Unlock()
	if err := a.flush(context.Background()); err != nil {
		a.log.Error("flushing rows to the database failed; retrying", "error", err)
		a.mu.Lock()
		a.schedule(flushRetry)
		a.mu.Unlock()
	}
}

// flush commits every row that was stored before the call to the database. Callers that wait for
// another one have their rows committed by the first of them.
func (a *ahead) flush(ctx context.Context) error {
	if a == nil || a.pending.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	want := a.queued
	a.mu.Unlock()
	a.applying.Lock()
	defer a.applying.Unlock()
	if a.flushed >= want {
		return nil
	}
	a.mu.Lock()
	batch, queued := a.queue, a.queued
	a.queue, a.position = nil, map[rowKey]int{}
	// A file that exceeds its maximum must be emptied, so writers wait for this flush.
	long := a.size >= maxAheadFile
	if !long {
		a.mu.Unlock()
	}
	err := a.apply(ctx, batch)
	if !long {
		a.mu.Lock()
	}
	defer a.mu.Unlock()
	if err != nil {
		later := a.queue
		a.queue, a.position = batch, map[rowKey]int{}
		for i, r := range batch {
			a.position[r.key()] = i
		}
		a.pending.Add(-int64(len(later)))
		a.schedule(flushRetry)
		for _, r := range later {
			a.enqueue(r)
		}
		return err
	}
	a.flushed = queued
	a.pending.Add(-int64(len(batch)))
	if len(a.queue) == 0 && a.file != nil {
		a.truncate()
	}
	return nil
}

// flushRead is flush for a read. A full disk prevents no read: it misses what is pending.
func (a *ahead) flushRead(ctx context.Context) error {
	err := a.flush(ctx)
	if failureOf(err) == full {
		a.log.Warn("a read misses rows that the full disk has no space for", "error", err)
		return nil
	}
	return err
}

// apply commits rows in one transaction. A row that the database refuses, which accepts
// should have prevented, is logged and dropped.
func (a *ahead) apply(ctx context.Context, batch []record) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	refused, err := a.write(ctx, "rows", batch)
	for _, r := range refused {
		a.log.Error("the database rejected a row that was stored ahead", "row", r.kind(), "id", r.id(), "sandbox", r.sandbox())
	}
	return err
}

// write stores rows in one transaction, and returns those that the database refused.
func (a *ahead) write(ctx context.Context, what string, batch []record) (refused []record, err error) {
	if a.shared {
		return a.send(ctx, what, batch)
	}
	err = a.db.inTx(ctx, what, func(tx *sql.Tx) error {
		refused = nil // it may run again
		for _, r := range batch {
			if err := r.run(ctx, tx, a.db); r.isRefusal(err) {
				refused = append(refused, r)
			} else if err != nil {
				return wrapError(ctx, err, "store %s %s", r.kind(), r.id())
			}
		}
		return nil
	})
	return refused, err
}

// send is write with a server, which gets the rows in one message. It may send them again: what is stored already stays as it is.
func (a *ahead) send(ctx context.Context, what string, batch []record) (refused []record, err error) {
	err = a.db.write.outage.patiently(ctx, always, func() error {
		return repeated(func() error {
			c, err := a.db.write.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Raw(func(driver any) error {
				refused, err = driver.(conn).putAll(ctx, batch)
				return err
			})
		})
	})
	if err != nil {
		return nil, wrapError(ctx, err, "store %s", what)
	}
	return refused, nil
}
