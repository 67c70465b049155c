package jail

import (
	"context"
	"net"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// Prepare boots a guest ahead. See sandbox.Preparer.
func (b *Backend) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Prepared, error) {
	if len(spec.Env) > 0 {
		return nil, api.Errorf(api.KindInvalid, "a guest that is booted ahead gets its environment at its claim")
	}
	if spec.Workspace != nil {
		return nil, api.Errorf(api.KindInvalid, "no guest is booted ahead with a workspace")
	}
	w, err := b.boot(ctx, spec, true)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// waiting is a guest that has reported and waits for its "go".
type waiting struct {
	*machine
	trees []*prepared

	claim sync.Mutex
	conn  *net.UnixConn // nil once claimed
}

// Claim says "go". See sandbox.Prepared.
func (w *waiting) Claim(ctx context.Context, env map[string]string) error {
	w.claim.Lock()
	defer w.claim.Unlock()
	if w.conn == nil {
		return api.Errorf(api.KindConflict, "sandbox %s is claimed already", w.id)
	}
	conn := w.conn
	w.conn = nil
	defer conn.Close()
	packet := []byte(birth.GoPacket)
	if len(env) > 0 {
		var err error
		_, all := environment(w.trees, env)
		if packet, err = (birth.Claim{Env: all}).Packet(); err != nil {
			return api.Errorf(api.KindInvalid, "sandbox %s: its environment: %w", w.id, err)
		}
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	select {
	case <-w.done:
		return api.Errorf(api.KindUnavailable, "sandbox %s ended before it was claimed: %s", w.id, w.Cause())
	default:
	}
	if _, err := conn.Write(packet); err != nil {
		if cerr := ctx.Err(); cerr != nil {
			err = cerr
		}
		return api.Errorf(api.KindUnavailable, "claim sandbox %s: %w", w.id, err)
	}
	return nil
}

// Kill ends the wait and the guest. See sandbox.Machine.
func (w *waiting) Kill(ctx context.Context) (api.Proof, error) {
	w.claim.Lock()
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
	w.claim.Unlock()
	return w.machine.Kill(ctx)
}
