package http

import (
	"context"
	"net/http"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

// execOutput streams a command's output from an offset on, and its end.
func (d execs) execOutput(w http.ResponseWriter, r *http.Request, x api.Exec) error {
	offset, exit, err := outputSeen(r)
	if err != nil {
		return err
	}
	if exit && x.State != api.ExecRunning {
		return done(w, nil)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s, err := d.Sandboxes.AttachExec(ctx, x.Sandbox, x.ID, offset)
	if err != nil {
		// It may have ended between, and what the guest kept of it may be gone.
		if now, nerr := d.Sandboxes.Exec(ctx, x.Sandbox, x.ID); nerr == nil {
			x = now
		}
		if x.State == api.ExecRunning || ctx.Err() != nil {
			return err
		}
	}
	out, ok := d.events.open(w)
	v := &viewer{out: out, at: offset}
	if s != nil {
		watch := guestproxy.NewWatch(http.NewResponseController(w), 0)
		defer watch.Stop()
		watch.Over(s)
		if ok {
			v.follow(s, cancel)
		}
		cancel()
		s.Close()
		if !ok || v.err != nil {
			return nil
		}
		// The record is stored before the stream ends. After an error the command may
		// still run: then the client reconnects.
		if x, err = d.Sandboxes.Exec(r.Context(), x.Sandbox, x.ID); err != nil || x.State == api.ExecRunning {
			return nil
		}
	}
	v.gap(x.OutputBytes)
	v.exit(x)
	return nil
}

// viewer tells one client of a command's output.
type viewer struct {
	out *eventStream
	at  int64 // the offset that comes next
	err error // what keeps the client from being told more
}

// streamEvent is what a goroutine that reads a stream hands over.
type streamEvent struct {
	ev  *envd.ProcessEvent
	err error
}

// follow sends the events of a stream until it ends or the client is gone. cancel ends a wait
// for the stream.
func (v *viewer) follow(s ExecStream, cancel func()) {
	events, next, done := make(chan streamEvent), make(chan struct{}), make(chan struct{})
	quit := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ev, err := s.Next()
			select {
			case events <- streamEvent{ev, err}:
			case <-quit:
				return
			}
			// An event is the stream's until the next one is requested.
			select {
			case <-next:
			case <-quit:
				return
			}
		}
	}()
	defer func() { close(quit); cancel(); <-done }()
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for {
		select {
		case e := <-events:
			if e.err != nil || e.ev.End != nil {
				return
			}
			if v.event(e.ev); v.err != nil {
				return
			}
			next <- struct{}{}
		case <-tick.C:
			if v.err = v.out.comment("keepalive"); v.err != nil {
				return
			}
		}
	}
}

func (v *viewer) event(ev *envd.ProcessEvent) {
	if ev.Start != nil {
		v.gap(ev.Start.Offset)
	}
	if ev.Data == nil {
		return
	}
	for _, o := range []struct {
		stream string
		p      []byte
	}{{"stdout", ev.Data.Stdout}, {"stderr", ev.Data.Stderr}, {"pty", ev.Data.PTY}} {
		if len(o.p) == 0 || v.err != nil {
			continue
		}
		at := v.at
		v.at += int64(len(o.p))
		v.err = v.out.send(offsetID(v.at), "output", api.ExecOutput{Offset: at, Stream: o.stream, Data: o.p})
	}
}

// gap reports that what is before an offset will not come.
func (v *viewer) gap(to int64) {
	if to <= v.at || v.err != nil {
		return
	}
	from := v.at
	v.at = to
	v.err = v.out.send(offsetID(to), "gap", api.ExecGap{From: from, To: to})
}

func (v *viewer) exit(x api.Exec) {
	if v.err == nil {
		v.err = v.out.send(offsetID(v.at)+exitSuffix, "exit", x)
	}
}
