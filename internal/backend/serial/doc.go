// Package serial carries many streams, and packets of orders, over the one serial port of a virtual machine, or over the
// standard input and output of a container at another host.
//
// The port is a virtio-serial device, whose host end is a Unix socket: it needs no module of the host's kernel, works
// with every accelerator, and a daemon that was restarted connects to it again. Both ends are here:
//
//	m, err := serial.Dial(ctx, conn, serial.Config{})       // the host
//	c, err := m.Open()                                      // a stream
//	err = m.Send(ctx, packet); p, err := m.Receive(ctx)     // orders and reports
//	m := serial.Serve(port, serial.Config{Accept: f, ...})  // in the machine
//
// # Format
//
// A frame has a head of 8 bytes (kind, length in 3 bytes, stream in 4) and a payload. Only the host opens streams.
// Each direction of a stream has a window of [Window] bytes, which the receiver extends as it passes bytes on: a
// stream that nobody reads stops itself and no other one. A zero in the place of a head is padding.
//
// A host that connects cannot know where its predecessor stopped. It sends more padding than any frame has payload,
// and then a hello with a nonce, upon which the machine ends all streams and answers with the nonce; what comes
// before the answer is skipped. The same happens to a machine that was saved and restored.
//
// # What it does not trust
//
// The host does not trust the machine: its kernel may be the attacker's. Frames, windows and queues are bounded, the
// memory of a link is at most [Window] and two buffers for each stream that the host opened, and what breaks the
// protocol, or is useless too often, ends the link. The machine trusts the host.
//
// # How it lives
//
// A [Mux] has a goroutine that reads, and two for each stream. Close ends and awaits all of them. The package must not
// know what a stream carries, nor which machine it is.
package serial
