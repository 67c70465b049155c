package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
)

// block is a piece of a request in the order in which Anthropic's cache reads it.
type block struct {
	text   string
	marked bool
}

// blocks takes a request of the Messages API apart.
func blocks(t *testing.T, body []byte) (all []block) {
	t.Helper()
	var doc struct {
		Tools, System []map[string]any
		Messages      []struct {
			Role    string
			Content []map[string]any
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	add := func(where string, b map[string]any) {
		_, marked := b["cache_control"]
		delete(b, "cache_control")
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, block{where + string(text), marked})
	}
	for _, b := range doc.Tools {
		add("tool", b)
	}
	for _, b := range doc.System {
		add("system", b)
	}
	for _, m := range doc.Messages {
		for _, b := range m.Content {
			add(m.Role, b)
		}
	}
	return all
}

// cache does what Anthropic's does: it keeps the prefix up to each mark, and finds
// the longest one that was kept before at a mark or at most 20 blocks before it.
type cache map[string]bool

func prefix(all []block, n int) string {
	var b strings.Builder
	for _, x := range all[:n] {
		b.WriteString(x.text)
	}
	return b.String()
}

// ask returns how many blocks of a request are read from the cache.
func (c cache) ask(t *testing.T, all []block) (hit int) {
	marks := 0
	for i, b := range all {
		if !b.marked {
			continue
		}
		marks++
		for n := i + 1; n > 0 && n > i+1-20; n-- {
			if c[prefix(all, n)] {
				hit = max(hit, n)
				break
			}
		}
	}
	if marks > 4 {
		t.Errorf("%d marks; the API takes 4", marks)
	}
	for i, b := range all {
		if b.marked {
			c[prefix(all, i+1)] = true
		}
	}
	return hit
}

// Each request of a loop reads from the cache all that the one before it sent,
// also after an answer with more calls than the cache looks back.
func TestCache(t *testing.T) {
	var also strings.Builder
	for i := range 14 {
		fmt.Fprintf(&also, "also: view {\"path\": \"b.txt\", \"lines\": %d}\n", i)
	}
	base, got := play(t, `
-- one --
call: view

{"path": "a.txt"}
-- many --
call: view
`+also.String()+`

{"path": "b.txt"}
-- two --
call: shell

{"command": "make"}
-- talk --

I am done.
-- end --
call: finish

{"summary": "ok"}
-- second round --
call: finish

{"summary": "ok"}
`)
	w := newWork(clients["messages"](base), nil)
	w.Run(t.Context(), "Go.")
	if rep := w.Run(t.Context(), "The gate failed."); rep.Stop != api.StopFinished {
		t.Fatalf("%+v", rep)
	}
	c := cache{}
	before := 0
	for i, body := range got.all {
		all := blocks(t, body)
		hit := c.ask(t, all)
		if i > 0 && hit < before {
			t.Errorf("request %d reads %d of %d blocks; the one before had %d", i+1, hit, len(all), before)
		}
		before = len(all)
	}
	if len(got.all) != 6 {
		t.Errorf("%d requests", len(got.all))
	}
	// The control: with the last mark alone, as in a chat, the many calls are read
	// anew.
	c, before = cache{}, 0
	missed := false
	for i, body := range got.all {
		all := blocks(t, body)
		for j := range all[:len(all)-1] {
			all[j].marked = false
		}
		missed = missed || c.ask(t, all) < before && i > 0
		before = len(all)
	}
	if !missed {
		t.Error("the answer with many calls does not test anything")
	}
}
