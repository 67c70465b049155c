package sqlite

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
)

const (
	// aheadRest is how long the last row waits for one that comes soon after: a
	// command that ends at once is one insert, and whoever waits for it has the
	// processors to himself.
	aheadRest = 10 * time.Millisecond
	// aheadMost is how long the first one waits where the others do not end.
	aheadMost = 100 * time.Millisecond
	// aheadRetry is the pause after the database refused.
	aheadRetry = time.Second
	// aheadRows and aheadBytes bound what waits: beyond, a writer sees to it that
	// the database has it.
	aheadRows  = 1024
	aheadBytes = 4 << 20
	// aheadTimeout bounds one transaction.
	aheadTimeout = 20 * time.Second
)

// ahead keeps rows of sandboxes and commands that are stored, in a file of its
// own, and not in the database yet. A write costs one system call instead of a
// transaction; every read of such rows comes after what was written before it.
//
// It accepts only what the database cannot refuse: a row of an owner, sandbox or
// command that this process stored itself and that is not final. Everything else
// is the database's to judge, at once.
type ahead struct {
	db  *database
	log *slog.Logger

	// waiting counts the rows that no transaction has committed.
	waiting atomic.Int64
	// applying is held from taking rows out of the queue to their commit, so that
	// they reach the database in their order.
	applying sync.Mutex

	mu     sync.Mutex
	file   *os.File // nil once closed
	broken bool     // what is in the file cannot be followed by anything
	size   int64
	buf    []byte
	queue  []record
	place  map[rowKey]int // of each row in the queue
	owners map[string]bool
	boxes  map[string]*box // that are not final
	timer  *time.Timer
	armed  bool
	due    time.Time      // the latest that the queue's rows may wait; zero where the timer is not theirs
	wg     sync.WaitGroup // the timer's run
}

// box is what is known of a sandbox that was stored here.
type box struct {
	owner, task any
	execs       map[string]bool // that are not final
}

// put stores a row, unless the database has to be asked: then it is false.
func (a *ahead) put(ctx context.Context, r record) (bool, error) {
	if a == nil {
		return false, nil
	}
	if err := ctx.Err(); err != nil {
		return true, failed(ctx, err, "store %s %s", r.what(), r.id())
	}
	a.mu.Lock()
	known := a.file != nil && !a.broken && a.knows(r)
	if !known {
		if r.op == updateSandboxOp {
			delete(a.boxes, r.id()) // what it becomes is not known here
		}
		a.mu.Unlock()
		return false, a.settle(ctx)
	}
	if err := a.write(r); err != nil {
		a.mu.Unlock()
		return true, err
	}
	a.learn(r)
	a.enqueue(r)
	full := len(a.queue) >= aheadRows || a.size >= aheadBytes
	a.mu.Unlock()
	if full {
		// The row is stored; that the database is slow or refuses is said by run.
		_ = a.settle(context.Background())
	}
	return true, nil
}

// knows says whether the database will take a row. The caller holds the lock.
func (a *ahead) knows(r record) bool {
	b := a.boxes[r.sandbox()]
	switch r.op {
	case insertSandboxOp:
		owner, _ := r.args[1].(string)
		return b == nil && (r.args[1] == nil || a.owners[owner])
	case updateSandboxOp:
		return b != nil && b.owner == r.args[1]
	case insertExecOp:
		return b != nil && !b.execs[r.id()]
	case updateExecOp:
		return b != nil && b.execs[r.id()]
	}
	return false
}

// learn remembers what a row makes known. The caller holds the lock.
func (a *ahead) learn(r record) {
	id, state := r.id(), r.args[2]
	switch r.op {
	case insertSandboxOp, updateSandboxOp:
		if state == string(api.SandboxEnded) || state == string(api.SandboxLost) {
			delete(a.boxes, id)
			return
		}
		b := a.boxes[id]
		if b == nil {
			b = &box{owner: r.args[1], execs: map[string]bool{}}
			a.boxes[id] = b
		}
		b.task = r.args[3]
	case insertExecOp, updateExecOp:
		b := a.boxes[r.sandbox()]
		if state == string(api.ExecRunning) {
			b.execs[id] = true
		} else {
			delete(b.execs, id)
		}
	}
}

// enqueue leaves a row to the database. One that waits there already is replaced:
// an insert and an update have the same values in the same order. The caller
// holds the lock.
func (a *ahead) enqueue(r record) {
	if at, ok := a.place[r.key()]; ok {
		a.queue[at].args = r.args
	} else {
		a.place[r.key()] = len(a.queue)
		a.queue = append(a.queue, r)
		a.waiting.Add(1)
	}
	a.rest()
}

// owner makes known whose rows may come.
func (a *ahead) owner(id api.OwnerID) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owners[string(id)] = true
}

// taskOf gives the task of a sandbox whose row may still wait, or nil.
func (a *ahead) taskOf(id string) any {
	if a == nil || a.waiting.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.boxes[id]; b != nil {
		return b.task
	}
	if at, ok := a.place[rowKey{id: id}]; ok {
		return a.queue[at].args[3]
	}
	return nil
}
