package loop

import (
	"fmt"
	"strings"

	"hortus.dev/api"
)

const (
	// staleAfter is after how many answers without a new list the model is reminded; the time doubles with each reminder.
	staleAfter = 15
	// MaxTodo is the most items of a list, and MaxTodoText the most of one item, in bytes.
	MaxTodo     = 40
	MaxTodoText = 200
)

// States of an item.
const (
	TodoPending = "pending"
	TodoActive  = "active"
	TodoDone    = "done"
)

// todo is the model's own list of what is to be done. A whole list replaces it.
type todo struct {
	items []api.TodoItem
	at    int // the step from which staleness counts
	wait  int // answers until the next reminder
}

// set takes a list that a tool returned. A tool of any origin is held to the bounds.
func (t *todo) set(items []api.TodoItem, step int) {
	t.items = nil
	for _, x := range items[:min(len(items), MaxTodo)] {
		if x.Text = api.Clip(short(x.Text), MaxTodoText); x.State != TodoActive && x.State != TodoDone {
			x.State = TodoPending
		}
		t.items = append(t.items, x)
	}
	t.at, t.wait = step, staleAfter
}

// left counts the items that are not done.
func (t *todo) left() (n int) {
	for _, x := range t.items {
		if x.State != TodoDone {
			n++
		}
	}
	return n
}

// stale reports, sparsely, that the list was not written for long.
func (t *todo) stale(step int) bool {
	if t.left() == 0 || step-t.at < t.wait {
		return false
	}
	t.at, t.wait = step, 2*t.wait
	return true
}

// String is the list as the model reads it.
func (t *todo) String() string {
	var b strings.Builder
	for _, x := range t.items {
		fmt.Fprintf(&b, "\n- [%s] %s", x.State, x.Text)
	}
	return b.String()
}

// planned takes a new list, and tells it.
func (r *run) planned(items []api.TodoItem) {
	r.todo.set(items, r.steps)
	r.emit(api.EventTodo, api.TodoEvent{Round: r.round, Step: r.steps, Items: r.todo.items})
}

// remind tells the model about a list that is stale.
func (r *run) remind() {
	if since := r.steps - r.todo.at; r.todo.stale(r.steps) {
		r.notice(fmt.Sprintf("Your todo list did not change during the last %d answers. %d items are open. If the list is out of date, update it with todo. Then continue.", since, r.todo.left()))
	}
}

// restate writes the list again behind a history that was shortened: the call that wrote it may be removed.
func (r *run) restate() {
	if r.todo.left() > 0 {
		r.notice("Your todo list:" + r.todo.String())
		r.todo.at = r.steps
	}
}
