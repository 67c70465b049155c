// Package life is the state machine of one sandbox: its states, the events that change
// them, and what each change makes the manager do.
//
// The table in table.go is the whole of it: [Next] answers for every pair of a state and
// an event. docs/lifecycle.md shows the same table, written by a test. A [Sandbox] holds
// the state and the row of one sandbox under one lock, which is never held during I/O: a
// change that needs I/O has a state of its own ("pausing"), which refuses what must not
// happen meanwhile or makes it wait.
//
//	s := life.New(row, life.Running)
//	step := s.Fire(life.Pause, nil)   // Running -> Pausing
//	err := machine.Pause(ctx)         // no lock is held
//	step = s.Fire(life.PauseDone, nil) // Pausing -> Paused: step.Do has StoreRow, Announce
//
// The package performs no effect itself and must not know machines, backends, commands or
// the store.
package life
