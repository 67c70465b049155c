// Package journal records the steps of work that survives its daemon. When the work is done again after the death of the daemon,
// a step that is recorded returns what it returned and is not executed again.
//
//	run, err := j.Begin(ctx, id, "task", input)
//	n, err := journal.Do(ctx, run, "count", nil, func(ctx context.Context, try journal.Try) (int, error) {
//		return count(ctx) // once, and again after a cut
//	})
//	_, err = run.End(ctx, journal.End{At: now, Event: &finished})
//
// A function that is done again must ask for the same steps with the same names. What it decides by, it
// gets from steps, and the time from [Run.Now]: a clock that is paused between steps and while no daemon
// works on the run. So it decides the same again.
//
// A step is recorded when it begins and when it has ended. One that has begun and has no end was cut: it
// begins again, as the next try, and [Try.Cut] tells it that an earlier one may have had effects. A step
// that ends with an error while its context has ended counts as cut too.
//
// What works side by side has parts of the run, with steps and clocks of their own ([Run.Part]). An [Agent] records what the models
// and the tools of an agent's loop answer. [Run.Once] emits the events of a loop, but those that were emitted before:
//
//	agent := journal.NewAgent(run, ctx, tool.Again())
//	cfg := loop.Config{Model: agent.Model(m), Do: agent.Do(), Emit: run.Once(log), Now: run.Now}
//
// Work that does not survive has the run [None], which records nothing.
//
// # Owners
//
// A run belongs to one daemon, its owner. Nobody else can write to its journal. The next daemon takes a run
// over with [Journal.Take] once the owner has provably ended; what a daemon wrongly mistaken for dead still
// tries to record is refused, and its step returns an error. After an error of the journal itself the run is damaged
// ([Run.Damage]), and the work must end.
//
// # Lives
//
// A [Journal] and a [Run] hold no resource and start no goroutine. The steps of a run are in memory from
// Take until it ends, and in the store until End removes them. One process uses a Run at a time; its steps
// may be done by several goroutines. An [Agent] is for one.
//
// The package must not know what the work is, or SQL.
package journal
