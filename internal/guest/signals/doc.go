// Package signals makes the guest ignore the signals that programs of the sandbox can send to
// it.
//
//	caught, err := signals.Survive(true)
//
// It sets dispositions below the Go runtime, once, at the guest's start. Commands start with
// the default disposition of every signal except those of [IgnoreLibrary]. It starts no
// goroutine and must not depend on the rest of the guest.
package signals
