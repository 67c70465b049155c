package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
)

const (
	// aheadSuffix ends the name of the file that rows are stored in first.
	aheadSuffix = "-ahead"
	// aheadRest is how long rows may wait for those that come soon after: a
	// command that ends at once is one insert, and whoever waits for it has the
	// processors to himself.
	aheadRest = 10 * time.Millisecond
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
	db  *DB
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
	wg     sync.WaitGroup // the timer's run
}

// box is what is known of a sandbox that was stored here.
type box struct {
	owner, task any
	execs       map[string]bool // that are not final
}

// openAhead applies what an earlier process left in the file and opens it anew.
func openAhead(ctx context.Context, db *DB, path string, log *slog.Logger) (*ahead, error) {
	file, err := os.OpenFile(path+aheadSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the rows that were stored ahead: %w", err)
	}
	a := &ahead{db: db, log: log, file: file, place: map[rowKey]int{}, owners: map[string]bool{}, boxes: map[string]*box{}}
	err = a.replay(ctx)
	if err == nil {
		err = a.begin()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	a.timer = time.AfterFunc(time.Hour, a.run)
	a.timer.Stop()
	return a, nil
}

// begin writes the head of an empty file.
func (a *ahead) begin() error {
	err := a.file.Truncate(0)
	if err == nil {
		_, err = a.file.WriteAt([]byte(aheadMagic), 0)
	}
	a.size = int64(len(aheadMagic))
	if err != nil {
		return fileFailed(err)
	}
	return nil
}

// clear empties the file of rows that the database has. Where that fails they are
// there once more, which does no harm, and it is tried again after the next ones.
// The caller holds the lock.
func (a *ahead) clear() {
	if a.file.Truncate(int64(len(aheadMagic))) == nil {
		a.size, a.broken = int64(len(aheadMagic)), false
	}
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

// write appends a row to the file. A row that fails is not there: neither for a
// later process nor before the next one. The caller holds the lock.
func (a *ahead) write(r record) error {
	a.buf = r.append(a.buf[:0])
	n, err := a.file.WriteAt(a.buf, a.size)
	if cap(a.buf) > 64<<10 {
		a.buf = nil
	}
	if err == nil {
		a.size += int64(n)
		return nil
	}
	if terr := a.file.Truncate(a.size); terr != nil {
		a.broken = true
	}
	return fileFailed(err)
}

// enqueue leaves a row to the database. One that waits there already is replaced:
// an insert and an update have the same values in the same order. The caller
// holds the lock.
func (a *ahead) enqueue(r record) {
	if at, ok := a.place[r.key()]; ok {
		a.queue[at].args = r.args
		return
	}
	a.place[r.key()] = len(a.queue)
	a.queue = append(a.queue, r)
	a.waiting.Add(1)
	a.arm(aheadRest)
}

// arm has run called once, after a while. The caller holds the lock.
func (a *ahead) arm(after time.Duration) {
	if !a.armed && a.file != nil {
		a.armed = true
		a.wg.Add(1)
		a.timer.Reset(after)
	}
}

func (a *ahead) run() {
	defer a.wg.Done()
	a.mu.Lock()
	a.armed = false
	a.mu.Unlock()
	if err := a.settle(context.Background()); err != nil {
		a.log.Error("rows that are stored did not get into the database; trying again", "error", err)
		a.mu.Lock()
		a.arm(aheadRetry)
		a.mu.Unlock()
	}
}

// settle has everything in the database that was stored before the call.
func (a *ahead) settle(ctx context.Context) error {
	if a == nil || a.waiting.Load() == 0 {
		return nil
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	a.mu.Lock()
	batch := a.queue
	a.queue, a.place = nil, map[rowKey]int{}
	// A file that has grown has to become empty some time: writers wait for it.
	long := a.size >= aheadBytes
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
		a.queue, a.place = batch, map[rowKey]int{}
		for i, r := range batch {
			a.place[r.key()] = i
		}
		a.waiting.Add(-int64(len(later)))
		for _, r := range later {
			a.enqueue(r)
		}
		a.arm(aheadRetry)
		return err
	}
	a.waiting.Add(-int64(len(batch)))
	if len(a.queue) == 0 && a.file != nil {
		a.clear()
	}
	return nil
}

// apply commits rows in one transaction. What the database refuses, which put
// should have known, is reported and left out.
func (a *ahead) apply(ctx context.Context, batch []record) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadTimeout)
	defer cancel()
	return a.db.inTx(ctx, "rows", func(tx *sql.Tx) error {
		for _, r := range batch {
			if err := r.run(ctx, tx, a.db); err != nil {
				if !r.refused(err) {
					return failed(ctx, err, "store %s %s", r.what(), r.id())
				}
				a.log.Error("a row that was stored is refused by the database", "row", r.what(), "id", r.id(), "error", err)
			}
		}
		return nil
	})
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

// close has everything in the database and removes the file. Where that fails
// the file stays for the next process.
func (a *ahead) close() error {
	if a == nil {
		return nil
	}
	err := a.settle(context.Background())
	a.mu.Lock()
	file := a.file
	a.file = nil
	if a.armed && a.timer.Stop() {
		a.armed = false
		a.wg.Done()
	}
	a.mu.Unlock()
	a.wg.Wait()
	if file == nil {
		return nil
	}
	// What was stored meanwhile.
	if serr := a.settle(context.Background()); err == nil {
		err = serr
	}
	if err == nil {
		err = os.Remove(file.Name())
	}
	file.Close()
	return err
}
