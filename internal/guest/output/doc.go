// Package output keeps the last bytes that a command wrote, for clients that read them now,
// later or again.
//
// A [Log] is a ring buffer of limited size with byte offsets. A limited number of readers
// read it at their own pace. A slow reader blocks [Log.Append], and with it the command:
//
//	log := output.NewLog(1 << 20)
//	r, err := log.Subscribe(0, false)
//	stream, offset, n, end := r.Read(buf)
//
// A client whose stream was ended gets a reservation ([Log.Reserve]): its output is kept
// until it subscribes again, or until the reservation expires. Reservations do not expire
// while the guest is quiet.
//
// A Log starts no goroutine except for its timers, and needs no closing. The package must
// not depend on processes, connections or, except for the end event, wire formats.
package output
