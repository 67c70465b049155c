package githttp

import (
	"encoding/hex"
	"fmt"
	"strings"

	"hortus.dev/api/secrets"
)

// id is the name of an object. One in SHA-1 has zeros at its end.
type id [32]byte

func toID(b []byte) (i id) {
	copy(i[:], b)
	return i
}

func parseID(s string) (i id) {
	_, _ = hex.Decode(i[:], []byte(s[:min(len(s), 2*len(i))])) // isID has checked it
	return i
}

// history is what a pack says about the parents of its commits.
type history struct {
	rule    secrets.Git
	limits  pack
	long    bool // ids in SHA-256
	updates []command

	number  map[id]int32 // of the commit
	first   []int32      // of its parents
	parents []id
	// incomplete is true if a commit was not noted: it is too large, or too many are.
	incomplete bool

	// The contents of the last commits, for deltas.
	at    map[int64]*commit
	byID  map[id]*commit
	queue []*commit
	size  int64
}

// commit is the content of a commit.
type commit struct {
	id      id
	at      int64
	content []byte
}

func newHistory(rule secrets.Git, l pack, long bool, updates []command) *history {
	return &history{rule: rule, limits: l, long: long, updates: updates,
		number: map[id]int32{}, at: map[int64]*commit{}, byID: map[id]*commit{}}
}

// add notes a commit of the pack.
func (h *history) add(at int64, content []byte) {
	sum := newHash(h.long)
	fmt.Fprintf(sum, "commit %d\x00", len(content))
	sum.Write(content)
	c := &commit{toID(sum.Sum(nil)), at, content}
	h.keep(c)
	if _, ok := h.number[c.id]; ok {
		return
	}
	parents, ok := parentsOf(content, 2*sum.Size())
	if !ok || len(h.first) >= h.limits.commits || len(h.parents)+len(parents) > h.limits.parents {
		h.incomplete = true
		return
	}
	h.number[c.id] = int32(len(h.first))
	h.first = append(h.first, int32(len(h.parents)))
	h.parents = append(h.parents, parents...)
}

// keep keeps the content of a commit, and forgets the oldest ones.
func (h *history) keep(c *commit) {
	const overhead = 256
	h.at[c.at], h.byID[c.id] = c, c
	h.queue = append(h.queue, c)
	h.size += int64(len(c.content)) + overhead
	for h.size > h.limits.cache {
		old := h.queue[0]
		h.queue[0], h.queue = nil, h.queue[1:]
		h.size -= int64(len(old.content)) + overhead
		delete(h.at, old.at)
		if h.byID[old.id] == old {
			delete(h.byID, old.id)
		}
	}
}

// parentsOf reads the parents of a commit whose ids have a length.
func parentsOf(content []byte, length int) (parents []id, ok bool) {
	text := string(content)
	line := func(word string) (string, bool) {
		rest, ok := strings.CutPrefix(text, word+" ")
		if !ok || len(rest) <= length || rest[length] != '\n' || !isID(rest[:length]) {
			return "", false
		}
		text = rest[length+1:]
		return rest[:length], true
	}
	if _, ok := line("tree"); !ok {
		return nil, false
	}
	for strings.HasPrefix(text, "parent ") {
		p, ok := line("parent")
		if !ok {
			return nil, false
		}
		parents = append(parents, parseID(p))
	}
	return parents, true
}

// check refuses updates whose new value does not have the old one among its ancestors, as far as
// the pack shows it.
func (h *history) check() *Refusal {
	steps := h.limits.walk
	for _, c := range h.updates {
		refused := h.checkUpdate(c, &steps)
		if refused != nil {
			refused.ref = c.ref
			return refused
		}
	}
	return nil
}

func (h *history) checkUpdate(c command, steps *int) *Refusal {
	old, start := parseID(c.old), parseID(c.new)
	first, ok := h.number[start]
	if !ok {
		return h.unknown(c, "the new commit of %.100q is not in the push")
	}
	seen := make([]bool, len(h.first))
	seen[first] = true
	for stack := []int32{first}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		end := len(h.parents)
		if int(n)+1 < len(h.first) {
			end = int(h.first[n+1])
		}
		parents := h.parents[h.first[n]:end]
		// The first parent is visited first.
		for i := len(parents) - 1; i >= 0; i-- {
			if *steps--; *steps < 0 {
				return h.unknown(c, "the history of %.100q is too large to be checked")
			}
			if parents[i] == old {
				return nil
			}
			if p, ok := h.number[parents[i]]; ok && !seen[p] {
				seen[p] = true
				stack = append(stack, p)
			}
		}
	}
	return h.unknown(c, "the update of %.100q is not fast-forward, as far as the push shows it")
}

// unknown refuses an update that was not found to be fast-forward.
func (h *history) unknown(c command, format string) *Refusal {
	r := refuse(h.rule, format, c.ref)
	r.Hint = "Add commits to what the server has, and push them; or push to a new ref. " + r.Hint
	if h.incomplete {
		r.Reason += "; some commits could not be read, or the push has too many"
	}
	return r
}
