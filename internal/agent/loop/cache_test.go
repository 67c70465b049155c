package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
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

// uncounted is a model whose server counts no tokens: the loop guesses.
type uncounted struct{ model.Model }

func (u uncounted) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	resp, err := u.Model.Generate(ctx, req, deltas)
	resp.Usage = api.Usage{Requests: 1}
	return resp, err
}

// parts takes a request of OpenAI's APIs apart, in the order in which a server caches it: the tools, the instructions,
// the messages.
func parts(t *testing.T, body []byte) (all []block) {
	t.Helper()
	var doc struct {
		Tools, Messages, Input []json.RawMessage
		Instructions           string
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, x := range doc.Tools {
		all = append(all, block{text: "tool" + string(x)})
	}
	all = append(all, block{text: doc.Instructions})
	for _, x := range append(doc.Messages, doc.Input...) {
		all = append(all, block{text: string(x)})
	}
	return all
}

// shared is how many blocks of a request are the beginning of one that was sent before.
func shared(before [][]block, all []block) (most int) {
	for _, b := range before {
		n := 0
		for n < len(b) && n < len(all) && b[n].text == all[n].text {
			n++
		}
		most = max(most, n)
	}
	return most
}

func bytesOf(all []block) (n int) {
	for _, b := range all {
		n += len(b.text)
	}
	return n
}

// longWork is a scenario of many answers: calls that read side by side, calls that change something, a list of work. A
// history that grows too long is shortened, and summarized where that is not enough.
func longWork(answers int) string {
	var b strings.Builder
	for i := range answers {
		fmt.Fprintf(&b, "-- answer %d --\n", i)
		switch {
		case i%12 == 3:
			fmt.Fprintf(&b, "call: todo\n\n{\"states\":[\"done\",\"active\",\"pending\"]}\n")
		case i%3 == 1:
			fmt.Fprintf(&b, "call: view\n")
			for n := range i % 5 {
				fmt.Fprintf(&b, "also: view {\"path\":\"b.txt\",\"lines\":%d}\n", 1000*i+n+1)
			}
			fmt.Fprintf(&b, "\n{\"path\":\"a.txt\",\"lines\":%d}\n", 1000*i)
		default:
			fmt.Fprintf(&b, "say: Now I run number %d.\ncall: shell\n\n{\"command\":\"make n%d\"}\n", i, i)
		}
	}
	b.WriteString("-- end --\ncall: finish\n\n{\"summary\":\"ok\"}\n")
	return b.String()
}

// summarizer is a model that writes summaries on a server of its own, so that a scenario need not know when. All requests
// are kept in one list.
type summarizer struct {
	model.Model
	summaries model.Model
	got, also *requests
}

func (s *summarizer) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if last := req.Messages[len(req.Messages)-1]; !strings.Contains(last.Text, "Write a summary of your work") {
		return s.Model.Generate(ctx, req, deltas)
	}
	resp, err := s.summaries.Generate(ctx, req, deltas)
	s.got.all = append(s.got.all, s.also.all...)
	s.also.all = nil
	return resp, err
}

// On long work at least nine tenths of what is sent is read from the model's cache, in bytes, on each API: also with calls
// that run side by side, with a list of work, and with the requests after the history was shortened, of which only the
// instructions and the tools are still the same.
func TestCacheRatio(t *testing.T) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			base, got := play(t, longWork(300))
			aside, also := play(t, "-- summary --\ntimes: 4\n\n"+strings.Repeat("What was done so far. ", 60)+"\n")
			m := &summarizer{client(base), client(aside), got, also}
			w := newWork(uncounted{m}, func(cfg *loop.Config, b *bench) {
				b.files["a.txt"], b.files["b.txt"] = strings.Repeat("a line of the file\n", 40), strings.Repeat("another line\n", 60)
				cfg.Tools = append([]loop.Tool{lists()}, b.tools()...)
				cfg.Window = 24_000
			})
			rep := w.Run(t.Context(), "Go.")
			if rep.Stop != api.StopFinished {
				t.Fatalf("%+v", rep)
			}
			how := map[string]int{}
			for _, e := range w.entries(t) {
				how[e.How]++
			}
			if how["cut"] < 2 || how["summary"] != 4 {
				t.Errorf("the history was shortened in these ways: %v", how)
			}
			read, total, uncached, anew := 0, 0, 0, 0
			marks, first := cache{}, cache{}
			var before [][]block
			for _, body := range got.all {
				var all []block
				hit := 0
				if name == "messages" {
					all = blocks(t, body)
					hit = marks.ask(t, all)
					seen := false // the control: one mark, behind the instructions
					for i := range all {
						all[i].marked, seen = all[i].marked && !seen, seen || all[i].marked
					}
					uncached += bytesOf(all[first.ask(t, all):])
				} else {
					all = parts(t, body)
					hit = shared(before, all)
					before = append(before, all)
				}
				read, total = read+bytesOf(all[:hit]), total+bytesOf(all)
				if hit < len(all)/2 {
					anew++
				}
			}
			ratio := float64(read) / float64(total)
			t.Logf("%.1f %% of %d KB in %d requests; shortened %v, %d requests begin anew", 100*ratio, total>>10, len(got.all), how, anew)
			if ratio < 0.9 {
				t.Errorf("%.1f %% of what was sent was read from the cache", 100*ratio)
			}
			if least := 1 + how["cut"] + how["summary"]; anew > least {
				t.Errorf("%d requests begin anew, want at most %d", anew, least)
			}
			if without := 1 - float64(uncached)/float64(total); name == "messages" && without > 0.5 {
				t.Errorf("%.1f %% without the marks of turns; this test shows nothing", 100*without)
			}
		})
	}
}
