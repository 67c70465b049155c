// Package output keeps the last bytes that a command wrote, for clients that read them now,
// later or again.
//
// A [Log] is a ring of limited size with byte offsets. Readers, up to a maximum number,
// read it at their own pace; a slow one makes [Log.Append] wait, and with it the command:
//
//	log := output.NewLog(1 << 20)
//	r, err := log.Subscribe(0, false)
//	stream, offset, n, end := r.Read(buf)
//
// A client whose stream was ended gets a reservation ([Log.Reserve]): its output is kept
// until it subscribes again, or until the reservation expires. Reservations stop expiring
// while the guest is quiet.
//
// A Log starts no goroutine but its timers, and lives as long as somebody refers to it. The
// package knows nothing of processes, connections or wire formats beyond the end event.
package output
