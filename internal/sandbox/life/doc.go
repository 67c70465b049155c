// Package life is the state machine of one sandbox: its states, the events that change
// them, and what each change makes the manager do.
//
// The table in table.go defines it completely: [Next] answers for every pair of a state and an
// event. A test writes the same table to docs/lifecycle.md. A [Sandbox] holds the state and the
// row of one sandbox under one lock, which is never held during I/O. A change that needs I/O has
// its own state ("pausing"), which refuses or delays events that must not happen meanwhile.
//
//	s := life.New(row, life.Running)
//	step := s.Fire(life.Pause, nil)   // Running -> Pausing
//	err := machine.Pause(ctx)         // no lock is held
//	step = s.Fire(life.PauseDone, nil) // Pausing -> Paused: step.Do has StoreRow, Announce
//
// The package performs no effect itself and must not know machines, backends, commands or
// the store.
package life
