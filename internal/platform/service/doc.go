// Package service is the life of a daemon's process: when it is ready and tells its service
// manager so, when it stops (a signal, a client's request, idleness), and in which order.
//
//	s := service.New(service.Config{Sandboxes: m, Warmer: m.Creator, Streams: m.Guests.Streams, Tasks: engine, Idle: 3 * time.Second})
//	defer s.Close(ctx)
//	ctx, stop := service.UntilSignal(ctx)
//	defer stop()
//	err := s.Serve(ctx, []service.Server{{Server: srv, Listener: ln}}, ready)
//
// A daemon ends in stages: listeners are closed; streams of commands may continue for the
// drain time; tasks and sandboxes are ended, or sandboxes are left to the next daemon;
// readers of events get their last events; connections are closed.
//
// The package must not know what its servers serve. A Service holds one goroutine that boots
// guests ahead, until Close; Serve waits for every goroutine that it started.
package service
