// Package turn is one call of a model, as every engine makes it: bounded in time,
// with its failed tries and its end told as events; and the count of answers that
// could not be used.
//
// The pipeline's roles and the tool loop both ask through it, so that a call means
// the same in either.
//
// The package must not know what is asked, how an answer is read, or who reads the
// events. An [Asker] is a value without a life of its own; a call ends when its
// context does, and no goroutine outlives it.
package turn
