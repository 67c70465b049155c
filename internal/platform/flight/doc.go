// Package flight runs a function once for all who want its result at the same time.
//
// [Group.Do] with a key starts a flight, or joins the one of that key that still accepts
// passengers. Everybody on board gets the same result and the same progress. The function
// says with [Flight.Depart] from when on its result would be too old for a newcomer: who
// comes later starts the next flight.
//
// A flight runs in a goroutine of its own. It is canceled when the last one who waits for
// it has left, and that one waits until the function has returned. So nothing runs after
// the last Do of a key has returned.
//
//	var g flight.Group[int]
//	n, shared, err := g.Do(ctx, "key", nil, func(ctx context.Context, f *flight.Flight) (int, error) {
//		list(ctx)
//		f.Depart()
//		return fetch(ctx, f.Note)
//	})
//
// The package must not know what it runs. The standard alternative, singleflight, has no
// contexts: who leaves first ends the work of the others, or no caller can leave.
package flight
