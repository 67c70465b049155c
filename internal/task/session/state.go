package session

import words "hortus.dev/api/session"

// move is what changes the state of a session.
type move string

const (
	begins  move = "a turn begins"
	kept    move = "its turn has ended, and the sandbox stays"
	ends    move = "its turn has ended with the sandbox"
	pauses  move = "the sandbox is paused"
	drops   move = "the sandbox is ended"
	rewinds move = "it is taken back"
	closes  move = "it is closed"
)

// moves are the states that follow, by the move and the state. What is not there is refused.
func moves() map[move]map[words.State]words.State {
	return map[move]map[words.State]words.State{
		begins:  {words.Stored: words.Running, words.Warm: words.Running, words.Paused: words.Running},
		kept:    {words.Running: words.Warm},
		ends:    {words.Running: words.Stored},
		pauses:  {words.Warm: words.Paused},
		drops:   {words.Warm: words.Stored, words.Paused: words.Stored, words.Stored: words.Stored},
		rewinds: {words.Warm: words.Stored, words.Paused: words.Stored, words.Stored: words.Stored},
		closes:  {words.Stored: words.Closed, words.Warm: words.Closed, words.Paused: words.Closed},
	}
}

// next returns the state that follows; false if the move is refused.
func next(from words.State, m move) (words.State, bool) {
	to, ok := moves()[m][from]
	return to, ok
}
