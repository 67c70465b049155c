package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

const halves = `
-- half --
times: 3
call: shell

{"command": "rm -rf
`

func TestMalformed(t *testing.T) {
	each(t, halves, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, nil)
		rep := w.Run(t.Context(), "Go.")
		if rep.Stop != api.StopMalformed || rep.Steps != 3 || rep.Usage.Requests != 3 || len(w.bench.calls) != 0 {
			t.Errorf("%+v, calls %q", rep, w.bench.calls)
		}
		w.entries(t)
	})
}

// What is left of a long input that cannot be read must not be readable by chance.
func TestMalformedTail(t *testing.T) {
	for _, in := range []string{`{"command":"x"}` + strings.Repeat(" ", 4000) + "}", strings.Repeat(" ", 3000) + "x", `{"command":"` + strings.Repeat("a", 9000)} {
		w := newWork(&circle{calls: []string{"shell " + in}}, nil)
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopMalformed || len(w.bench.calls) != 0 {
			t.Errorf("%+v, calls %d", rep, len(w.bench.calls))
		}
		if n := len(w.History()[1].Calls[0].Input); n > 3000 {
			t.Errorf("%d bytes are kept", n)
		}
		w.entries(t)
	}
}

// The larger model gets its own tries.
func TestMalformedLarge(t *testing.T) {
	each(t, halves, func(t *testing.T, m model.Model, _ *requests) {
		base, _ := play(t, `
-- better --
last: it is truncated
call: finish

{"summary": "ok"}
`)
		w := newWork(m, func(c *loop.Config, _ *bench) { c.Large = named{clients["messages"](base), "large"} })
		rep := w.Run(t.Context(), "Go.")
		if rep.Stop != api.StopFinished || rep.Steps != 4 {
			t.Errorf("%+v", rep)
		}
		if up := of[api.EscalationEvent](w.facts); len(up) != 1 || up[0].From != m.Name() || up[0].To != "large" || up[0].Role != "agent" || up[0].Why == "" {
			t.Errorf("%+v", up)
		}
		w.entries(t)
	})
}

// named is a model under another name.
type named struct {
	model.Model
	name string
}

func (n named) Name() string { return n.name }

// An answer that is cut for its length runs nothing, also not what looks whole.
func TestLength(t *testing.T) {
	each(t, `
-- long --
stop: length
say: I write it.
call: shell

{"command": "make"}
-- short --
last: exceeded the maximum length
lacks: "make"
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, nil)
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || len(w.bench.calls) != 0 {
			t.Errorf("%+v %q", rep, w.bench.calls)
		}
		if all := w.entries(t); !all[2].Cut || len(all[2].Calls) != 0 || !strings.HasPrefix(all[2].Text, "I write it.") {
			t.Errorf("%+v", all[2])
		}
	})
}

func TestEndless(t *testing.T) {
	base, _ := play(t, "-- endless --\ntimes: 3\nendless: true\npiece: 65536\n\n"+strings.Repeat("and on ", 10000)+"\n")
	w := newWork(clients["messages"](base), nil)
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopMalformed || rep.Steps != 3 {
		t.Errorf("%s %s", rep.Stop, rep.Why)
	}
	if n := w.script.Len(); n > 4<<20 {
		t.Errorf("the transcript has %d bytes", n)
	}
	w.entries(t)
}

// A call that is cut off half way is made again; without another try, what was said
// stays and nothing is run.
func TestCutStream(t *testing.T) {
	const cut = `
-- cut --
say: I will delete it.
call: shell
cut: 30

{"command": "rm -rf everything that there is"}
`
	each(t, cut+`
-- whole --
lacks: I will delete
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(patient(m), nil)
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || rep.Steps != 1 || len(w.bench.calls) != 0 {
			t.Errorf("%+v", rep)
		}
		if again := of[api.ModelRetryEvent](w.facts); len(again) != 1 || !strings.Contains(again[0].Error, "truncated") {
			t.Errorf("%+v", again)
		}
		if says := of[api.SayEvent](w.facts); len(says) != 0 {
			t.Errorf("a void answer was told: %+v", says)
		}
		w.entries(t)
	})
	each(t, cut, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, nil)
		rep := w.Run(t.Context(), "Go.")
		if rep.Stop != api.StopModel || api.KindOf(rep.Err) != api.KindUnavailable || rep.Text != "I will delete it." || len(w.bench.calls) != 0 {
			t.Errorf("%+v", rep)
		}
		if says := of[api.SayEvent](w.facts); len(says) != 1 || !says[0].Cut {
			t.Errorf("%+v", says)
		}
		if h := w.History(); len(h[len(h)-1].Calls) != 0 || h[len(h)-1].Text != "I will delete it." {
			t.Errorf("%+v", h)
		}
		if strings.Contains(w.script.String(), "rm -rf") {
			t.Error("half a call is in the transcript")
		}
		w.entries(t)
	})
}

// Of several tries that were cut the words of the last stay, and no others.
func TestCutTries(t *testing.T) {
	each(t, "-- one --\ncut: 8\npiece: 4\n\nFirst and more\n-- two --\ncut: 8\npiece: 4\n\nSecond and more\n-- three --\ncut: 8\npiece: 4\n\nThirdly and more\n",
		func(t *testing.T, m model.Model, _ *requests) {
			w := newWork(patient(m), nil)
			if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopModel || rep.Text != "Thirdly " {
				t.Errorf("%+v", rep)
			}
			w.entries(t)
		})
}

func TestOverload(t *testing.T) {
	each(t, `
-- rate --
status: 429
header: Retry-After: 1

slow
-- overloaded --
status: 529
class: overloaded_error

busy
-- ok --
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(patient(m), nil)
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || rep.Steps != 1 {
			t.Errorf("%+v", rep)
		}
		if again := of[api.ModelRetryEvent](w.facts); len(again) != 2 || again[0].Role != "agent" {
			t.Errorf("%+v", again)
		}
	})
	each(t, "-- key --\nstatus: 401\n\nno\n", func(t *testing.T, m model.Model, _ *requests) {
		if rep := newWork(patient(m), nil).Run(t.Context(), "Go."); rep.Stop != api.StopModel || api.KindOf(rep.Err) != api.KindUnauthenticated {
			t.Errorf("%+v", rep)
		}
	})
}

func TestDeclined(t *testing.T) {
	const no = "-- no --\nstop: refusal\n\nI will not\n"
	each(t, no, func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, nil)
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopDeclined || rep.Err != nil || rep.Why == "" {
			t.Errorf("%+v", rep)
		}
	})
	each(t, no, func(t *testing.T, m model.Model, _ *requests) {
		base, _ := play(t, "-- yes --\nlast: Go.\nlacks: I will not\ncall: finish\n\n{\"summary\": \"ok\"}\n")
		w := newWork(m, func(c *loop.Config, _ *bench) { c.Large = named{clients["chat"](base), "large"} })
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || len(of[api.EscalationEvent](w.facts)) != 1 {
			t.Errorf("%+v", rep)
		}
		w.entries(t)
	})
}

func TestSandboxEnds(t *testing.T) {
	each(t, "-- run --\ncall: shell\n\n{\"command\": \"x\"}\n", func(t *testing.T, m model.Model, _ *requests) {
		gone := api.Errorf(api.KindUnavailable, "the sandbox ended: memory limit")
		w := newWork(m, func(_ *loop.Config, b *bench) { b.fails = gone })
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopSandbox || !errors.Is(rep.Err, gone) || len(rep.Skipped) != 1 {
			t.Errorf("%+v", rep)
		}
		w.entries(t)
	})
}

const shells = "-- run --\ntimes: %d\nusage: 1000 200 100\ncall: shell\n\n{\"command\": \"x\"}\n"

func TestBudgets(t *testing.T) {
	for _, tt := range []struct {
		name   string
		budget api.Budget
		times  int
		stop   api.StopReason
		calls  int
		notice string // in the history, and the answer after which it comes
		after  int
	}{
		{"steps", api.Budget{Steps: 4}, 4, api.StopSteps, 4, "3 answers remain", 1},
		// The calls of the answer that used up a budget do not run.
		{"tokens", api.Budget{Tokens: 4000}, 4, api.StopTokens, 3, "", 0},
		{"tokens with notice", api.Budget{Tokens: 3600}, 4, api.StopTokens, 3, "90 % of the tokens", 3},
		{"cost", api.Budget{CostUSD: 0.0100}, 4, api.StopCost, 3, "", 0},
		{"output", api.Budget{OutputBytes: 4100}, 5, api.StopOutput, 5, "90 % of the command output limit", 4},
		{"wall", api.Budget{WallMS: 3_600_000}, 4, api.StopWall, 4, "90 % of the time", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, client := range clients {
				t.Run(name, func(t *testing.T) {
					base, _ := play(t, fmt.Sprintf(shells, tt.times))
					clock := noon
					n := 0
					w := newWork(client(base), func(c *loop.Config, b *bench) {
						c.Budget = tt.budget
						c.Now = func() time.Time { return clock }
						b.after = func() {
							// Each command takes 18 minutes, and says something new.
							n++
							clock = clock.Add(18*time.Minute + time.Second)
						}
					})
					rep := w.Run(t.Context(), "Go.")
					if rep.Stop != tt.stop || len(w.bench.calls) != tt.calls || rep.Steps != tt.times || rep.Err != nil || rep.Why == "" {
						t.Errorf("%+v, %d calls", rep, len(w.bench.calls))
					}
					if got, want := len(rep.Completed)+len(rep.Skipped), tt.times; got != want {
						t.Errorf("%d calls are told of %d", got, want)
					}
					said, at, answers := 0, 0, 0
					for _, e := range w.entries(t) {
						if e.Kind == loop.KindAssistant {
							answers++
						}
						if e.Kind == loop.KindNotice && strings.Contains(e.Text, "budget is nearly exhausted") {
							said, at = said+1, answers
							if !strings.Contains(e.Text, tt.notice) {
								t.Errorf("notice %q", e.Text)
							}
						}
					}
					if tt.notice != "" && (said != 1 || at != tt.after) {
						t.Errorf("%d notices, after answer %d", said, at)
					}
					// It stays used up.
					if again := w.Run(t.Context(), "More."); again.Stop != tt.stop || again.Steps != 0 {
						t.Errorf("%+v", again)
					}
				})
			}
		})
	}
}

// The wall clock ends a running call.
func TestWallTool(t *testing.T) {
	each(t, "-- run --\ncall: shell\n\n{\"command\": \"sleep\"}\n", func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, func(c *loop.Config, b *bench) {
			c.Now, c.Budget.WallMS = nil, 500
			b.wait = func(ctx context.Context) { <-ctx.Done() }
		})
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopWall || rep.Err != nil {
			t.Errorf("%+v", rep)
		}
	})
	each(t, "-- wait --\ndelay: 1h\n\nx\n", func(t *testing.T, m model.Model, _ *requests) {
		w := newWork(m, func(c *loop.Config, _ *bench) { c.Now, c.Budget.WallMS = nil, 100 })
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopWall {
			t.Errorf("%+v", rep)
		}
	})
}

// A budget in money cannot be kept with a model that nobody knows the price of.
func TestUnpriced(t *testing.T) {
	base, _ := play(t, "model: local\n"+fmt.Sprintf(shells, 1))
	w := newWork(localModel(t, base), func(c *loop.Config, _ *bench) { c.Budget.CostUSD = 100 })
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopCost || !strings.Contains(rep.Why, "price of model") || len(w.bench.calls) != 0 || rep.Steps != 1 {
		t.Errorf("%+v", rep)
	}
	w.entries(t)
}

// circle answers with calls in turn, for ever.
type circle struct {
	calls []string
	n     int
	reqs  []model.Request
	usage int64 // tokens of each request; 0 tells none
}

func (*circle) Name() string { return "circle" }

func (c *circle) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	c.reqs = append(c.reqs, req)
	name, input, _ := strings.Cut(c.calls[c.n%len(c.calls)], " ")
	c.n++
	return model.Response{Stop: model.StopTools, Usage: api.Usage{Requests: 1, InputTokens: c.usage}, Message: model.Message{Role: model.RoleAssistant,
		Calls: []model.Call{{ID: "x", Name: name, Input: json.RawMessage(strings.ReplaceAll(input, "#", fmt.Sprint(c.n)))}}}}, nil
}

func TestCircles(t *testing.T) {
	const a, b, c, d = `view {"path":"a.txt"}`, `view {"path": "b.txt"}`, `view {"path":"none"}`, `shell {"command":"make"}`
	for _, tt := range []struct {
		name        string
		calls       []string
		steps, warn int
		stop        api.StopReason
	}{
		{"the same", []string{a}, 8, 5, api.StopLoop},
		{"two", []string{a, b}, 12, 8, api.StopLoop},
		{"three", []string{a, b, c}, 18, 12, api.StopLoop},
		{"four", []string{a, b, c, d}, 24, 16, api.StopLoop},
		{"the same in other words", []string{a, `view { "path" : "a.txt" }`}, 8, 5, api.StopLoop},
		{"waiting is none", []string{`shell {"command":"wait"}`}, 40, 0, api.StopSteps},
		{"an interrupted call is none", []string{`shell {"command":"cut"}`}, 40, 0, api.StopSteps},
		{"something new each time", []string{a, a, a, a, `shell {"command":"make #"}`}, 40, 0, api.StopSteps},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWork(&circle{calls: tt.calls}, func(c *loop.Config, _ *bench) { c.Budget.Steps = 40 })
			rep := w.Run(t.Context(), "Go.")
			if rep.Stop != tt.stop || rep.Steps != tt.steps {
				t.Errorf("%s after %d steps: %s", rep.Stop, rep.Steps, rep.Why)
			}
			warned := 0
			for _, e := range w.entries(t) {
				if e.Kind == loop.KindNotice && strings.Contains(e.Text, "repeating yourself") {
					warned = e.Step
				}
			}
			if warned != tt.warn {
				t.Errorf("warned at step %d, want %d", warned, tt.warn)
			}
		})
	}
	t.Run("large", func(t *testing.T) {
		large := &circle{calls: []string{`finish {"summary":"ok"}`}}
		w := newWork(&circle{calls: []string{a}}, func(c *loop.Config, _ *bench) { c.Large = named{large, "large"} })
		rep := w.Run(t.Context(), "Go.")
		if up := of[api.EscalationEvent](w.facts); rep.Stop != api.StopFinished || rep.Steps != 9 || len(up) != 1 || !strings.Contains(up[0].Why, "repeats itself") || rep.Model != "large" {
			t.Errorf("%+v %+v", rep, up)
		}
		w.entries(t)
	})
}

// modelFunc is a model made of a function.
type modelFunc struct {
	next func(model.Request) (model.Response, error)
	name string
}

func (m modelFunc) Name() string { return m.name }

func (m modelFunc) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	return m.next(req)
}

// What a server says that was used neither gives a budget back nor overflows it.
func TestHostileUsage(t *testing.T) {
	for _, tt := range []struct {
		usage int64
		stop  api.StopReason
		steps int
	}{{-1 << 60, api.StopSteps, 10}, {1 << 62, api.StopTokens, 1}} {
		w := newWork(&circle{calls: []string{`shell {"command":"#"}`}, usage: tt.usage}, func(c *loop.Config, _ *bench) {
			c.Budget = api.Budget{Steps: 10, Tokens: 1000, CostUSD: 1}
		})
		if rep := w.Run(t.Context(), "Go."); rep.Stop != tt.stop || rep.Steps != tt.steps || rep.Usage.InputTokens < 0 {
			t.Errorf("%d: %+v", tt.usage, rep)
		}
		if ev := of[api.CompactEvent](w.facts); len(ev) != 0 {
			t.Errorf("shortened for nothing: %+v", ev)
		}
	}
}

// TestSandboxReplaced: the sandbox is lost with a call. Once it is replaced, the model is told and continues; the other calls
// of its answer are not run. If it cannot be replaced, the work ends.
func TestSandboxReplaced(t *testing.T) {
	gone := api.Errorf(api.KindUnavailable, "the sandbox ended")
	const script = "-- two calls --\nlast: Go.\ncall: shell\nalso: shell {\"command\": \"y\"}\n\n{\"command\": \"x\"}\n" +
		"-- told --\nlast: The sandbox was lost and has been replaced\ncall: shell\n\n{\"command\": \"z\"}\n-- end --\ncall: finish\n\n{\"summary\": \"ok\"}\n"
	for _, c := range []struct {
		name    string
		fails   []bool // of the replacements
		stop    api.StopReason
		calls   string
		skipped int
	}{
		{"replaced", []bool{false}, api.StopFinished, "shell x, shell z", 2},
		{"replaced at the second try", []bool{true, false}, api.StopFinished, "shell x, shell z", 2},
		{"never", []bool{true, true, true}, api.StopSandbox, "shell x", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			played := script
			if c.stop == api.StopSandbox {
				played, _, _ = strings.Cut(script, "-- told --")
			}
			each(t, played, func(t *testing.T, m model.Model, _ *requests) {
				tries := 0
				w := newWork(m, func(cfg *loop.Config, b *bench) {
					b.fails = gone
					cfg.Replace = func(_ context.Context, n int, why error) error {
						if tries++; n != tries || api.KindOf(why) != api.KindUnavailable {
							t.Errorf("try %d is number %d: %v", tries, n, why)
						}
						if c.fails[n-1] {
							return api.Errorf(api.KindUnavailable, "no room")
						}
						b.fails = nil
						return nil
					}
				})
				rep := w.Run(t.Context(), "Go.")
				if rep.Stop != c.stop || strings.Join(w.bench.calls, ", ") != c.calls || tries != len(c.fails) || len(rep.Skipped) != c.skipped {
					t.Errorf("%s (%s) after %q, %d tries, skipped %q", rep.Stop, rep.Why, w.bench.calls, tries, rep.Skipped)
				}
				w.entries(t)
			})
		})
	}
}
