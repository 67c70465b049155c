// Package durable does work in steps that survive the process: what a step returned is recorded, and when
// the work is done again after the death of its daemon, recorded steps return what they returned and are
// not executed.
//
//	run, err := journal.Begin(ctx, id, "task", input)
//	n, err := durable.Do(ctx, run, "count", nil, func(ctx context.Context, try durable.Try) (int, error) {
//		return count(ctx) // once, and again after a cut
//	})
//	err = run.End(ctx, store.RunEnd{At: now, Event: &finished})
//
// A function that is done again must ask for the same steps with the same names. What it decides by, it
// gets from steps, and the time from [Run.Now]: a clock that stands still between steps and while no daemon
// works on the run. So it decides the same again.
//
// A step is recorded when it begins and when it has ended. One that has begun and has no end was cut: it
// begins again, as the next try, and [Try.Cut] tells it that an earlier one may have had effects. A step
// that ends with an error while its context has ended counts as cut too.
//
// # Owners
//
// A run belongs to one daemon, its owner. Nobody else can write to its journal. The next daemon takes a run
// over with [Journal.Take] once the owner has provably ended; what a daemon wrongly taken for dead still
// tries to record is refused, and its step returns an error.
//
// # Lives
//
// A [Journal] and a [Run] hold no resource and start no goroutine. The steps of a run are in memory from
// Take until it ends, and in the store until End removes them. One process uses a Run at a time; its steps
// may be done by several goroutines.
//
// The package must not know what the work is, SQL or events' meaning.
package durable
