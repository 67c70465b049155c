package plan

import (
	"fmt"
	"strings"
	"time"

	words "hortus.dev/api/plan"
)

// ready returns the items that can begin, by their index, in the order of the plan: what they need is completed, and there is a place.
func (o *openPlan) ready() (out []int) {
	state := make(map[string]words.ItemState, len(o.items))
	busy := 0
	for i := range o.items {
		it := &o.items[i]
		state[it.ID] = it.State
		if it.State == words.InProgress && it.Phase != words.Asks {
			busy++
		}
	}
	for i := range o.items {
		it := &o.items[i]
		if it.State != words.Pending || busy+len(out) >= o.Parallel {
			continue
		}
		can := true
		for _, need := range it.Needs {
			can = can && state[need] == words.Completed
		}
		if can {
			out = append(out, i)
		}
	}
	return out
}

// arrival returns the item whose result is merged next; -1 if none waits, or one is being merged.
func (o *openPlan) arrival() int {
	next := -1
	for i := range o.items {
		it := &o.items[i]
		switch {
		case it.State != words.InProgress || it.Phase != words.Merges && it.Phase != words.Checks:
		case it.Phase == words.Checks:
			return i // it was merged before its daemon ended, or is now
		case next < 0 || it.Arrived < o.items[next].Arrived:
			next = i
		}
	}
	return next
}

// ended reports whether nothing happens to any item any more.
func (o *openPlan) ended() bool {
	for i := range o.items {
		if !o.items[i].Ended() {
			return false
		}
	}
	return true
}

// skip skips the items that need one that has no result.
func (o *openPlan) skip() {
	for {
		more := false
		lost := map[string]bool{}
		for i := range o.items {
			if s := o.items[i].State; s == words.Failed || s == words.Skipped {
				lost[o.items[i].ID] = true
			}
		}
		for i := range o.items {
			it := &o.items[i]
			if it.State != words.Pending {
				continue
			}
			for _, need := range it.Needs {
				if lost[need] {
					o.set(i, words.Skipped, "", "it needs "+need+", which has no result")
					more = true
					break
				}
			}
		}
		if !more {
			return
		}
	}
}

// unskip returns the items to the queue that were skipped because of one that is tried again.
func (o *openPlan) unskip() {
	for i := range o.items {
		if o.items[i].State == words.Skipped {
			o.set(i, words.Pending, "", "")
			o.items[i].EndedAt = time.Time{}
		}
	}
	o.skip()
}

// waits says what a pending item waits for.
func (o *openPlan) waits(i int) string {
	var needs []string
	for _, need := range o.items[i].Needs {
		if n := o.index(need); n >= 0 && o.items[n].State != words.Completed {
			needs = append(needs, need)
		}
	}
	if len(needs) > 0 {
		return "waits for " + strings.Join(needs, ", ")
	}
	return fmt.Sprintf("waits for a place (%d at a time)", o.Parallel)
}
