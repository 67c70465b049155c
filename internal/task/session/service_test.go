package session

import (
	"testing"

	words "hortus.dev/api/session"
)

// TestMoves: every move of every state is in the table or refused, and nothing follows a session that is closed.
func TestMoves(t *testing.T) {
	const s, r, w, p, c = words.Stored, words.Running, words.Warm, words.Paused, words.Closed
	want := map[move]map[words.State]words.State{
		begins: {s: r, w: r, p: r}, kept: {r: w}, ends: {r: s}, pauses: {w: p},
		drops: {s: s, w: s, p: s}, rewinds: {s: s, w: s, p: s}, closes: {s: c, w: c, p: c},
	}
	allowed := 0
	for _, m := range []move{begins, kept, ends, pauses, drops, rewinds, closes} {
		for _, from := range []words.State{s, r, w, p, c} {
			to, ok := next(from, m)
			if wanted, is := want[m][from]; ok != is || to != wanted {
				t.Errorf("%s, %s: %q, %v; want %q", from, m, to, ok, wanted)
			}
			if ok {
				allowed++
			}
		}
	}
	if allowed != 15 {
		t.Errorf("%d moves are allowed", allowed)
	}
	if _, ok := next(s, "another move"); ok {
		t.Error("an unknown move is allowed")
	}
	o := &openSession{}
	o.State = c
	if err := o.move(begins, ""); err == nil || len(o.facts) > 0 {
		t.Errorf("a closed session begins: %v, %v", err, o.facts)
	}
}

// TestFirst: what runs comes first, then an interruption, then the oldest that waits.
func TestFirst(t *testing.T) {
	q := func(state words.TurnState, mode words.Mode) turn {
		var v turn
		v.State, v.Mode = state, mode
		return v
	}
	for name, test := range map[string]struct {
		turns []turn
		want  int
	}{
		"nothing":       {nil, 0},
		"done":          {[]turn{q(words.TurnDone, ""), q(words.TurnRemoved, "")}, 0},
		"the oldest":    {[]turn{q(words.TurnDone, ""), q(words.TurnQueued, ""), q(words.TurnQueued, words.Queue)}, 2},
		"interruption":  {[]turn{q(words.TurnQueued, ""), q(words.TurnQueued, words.Interrupt), q(words.TurnQueued, words.Interrupt)}, 2},
		"what runs":     {[]turn{q(words.TurnQueued, words.Interrupt), q(words.TurnRunning, "")}, 2},
		"a removed one": {[]turn{q(words.TurnRemoved, words.Interrupt), q(words.TurnQueued, "")}, 2},
	} {
		o := &openSession{turns: test.turns}
		for i := range o.turns {
			o.turns[i].N = i + 1
		}
		if got := o.first(); got != test.want {
			t.Errorf("%s: turn %d, want %d", name, got, test.want)
		}
	}
}

// TestConversation: the turns that lead to one are its conversation, also if it was superseded, and a damaged row has an end.
func TestConversation(t *testing.T) {
	o := &openSession{}
	for i, after := range []int{0, 1, 2, 1, 4} {
		var v turn
		v.N, v.After, v.State = i+1, after, words.TurnDone
		o.turns = append(o.turns, v)
	}
	for to, want := range map[int][]int{0: nil, 1: {1}, 3: {1, 2, 3}, 5: {1, 4, 5}, 9: nil} {
		var got []int
		for _, v := range o.conversation(to) {
			got = append(got, v.N)
		}
		if len(got) != len(want) {
			t.Errorf("to %d: %v, want %v", to, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("to %d: %v, want %v", to, got, want)
			}
		}
	}
	if n := o.supersede(5); n != 2 || !o.turns[1].Superseded || !o.turns[2].Superseded || o.turns[3].Superseded {
		t.Errorf("%d are superseded", n)
	}
	if n := o.supersede(3); n != 2 || o.turns[1].Superseded || !o.turns[4].Superseded {
		t.Errorf("%d are superseded", n)
	}
	o.turns[0].After = 3 // a circle, which no code of ours writes
	if n := len(o.conversation(3)); n > len(o.turns) {
		t.Errorf("a circle has %d turns", n)
	}
}
