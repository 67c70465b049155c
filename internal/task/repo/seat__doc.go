// Package seat has the place of an agent: the tools keep it while the computer behind them is replaced, each round or by
// the next daemon. It refuses what the file policy of the task forbids before a computer is asked.
//
//	s := seat.New(policy)
//	s.Sit(computer)
//	tools := tool.New(tool.Config{Box: s, Keep: keep})
//	...
//	proof, err := s.Leave(ctx) // kills the computer
//
// A [Seat] starts nothing. Its computer lives until Leave, or is taken away with Sit(nil). The package must not know
// where a computer is from.
package repo
