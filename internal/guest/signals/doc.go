// Package signals makes the guest ignore the signals that programs of the sandbox can send to
// it.
//
//	caught, err := signals.Survive(true)
//
// It sets dispositions below the Go runtime, once, at the guest's start. Commands get the
// default of every signal but those that [IgnoreLibrary] documents. It starts no goroutine
// and knows nothing of the rest of the guest.
package signals
