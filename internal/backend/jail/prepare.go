package jail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
	w, err := b.boot(ctx, spec, true, nil)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// waiting is a guest that has reported and waits for its "go".
type waiting struct {
	*machine
	trees []*prepared

	// spec is what it was booted for; restored says that it came from an
	// image of its memory and knows not yet who it is.
	spec     sandbox.Spec
	restored bool

	claim sync.Mutex
	conn  *child // nil once claimed
}

// Claim says "go", or who it is to one that came from an image. See
// sandbox.Prepared.
func (w *waiting) Claim(ctx context.Context, env map[string]string) error {
	w.claim.Lock()
	defer w.claim.Unlock()
	if w.conn == nil {
		return api.Errorf(api.KindConflict, "sandbox %s is claimed already", w.id)
	}
	if err := ctx.Err(); err != nil {
		return api.Errorf(api.KindOf(err), "claim sandbox %s: %w", w.id, err)
	}
	conn := w.conn.conn
	packet, nonce, err := w.lastPacket(env)
	if err != nil {
		return api.Errorf(api.KindInvalid, "sandbox %s: its environment: %w", w.id, err)
	}
	w.conn = nil
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	select {
	case <-w.done:
		return api.Errorf(api.KindUnavailable, "sandbox %s ended before it was claimed: %s", w.id, w.Cause())
	default:
	}
	_, err = conn.Write(packet)
	if err == nil && nonce != "" {
		err = (&child{conn: conn}).awaitSelf(nonce)
	}
	if err != nil {
		kind := api.KindUnavailable
		if cerr := ctx.Err(); cerr != nil { // which broke it off: the guest did not
			kind, err = api.KindOf(cerr), cerr
		}
		return api.Errorf(kind, "claim sandbox %s: %w", w.id, err)
	}
	return nil
}

// lastPacket is what ends the wait; with a nonce an answer follows that has it.
func (w *waiting) lastPacket(env map[string]string) (packet []byte, nonce string, err error) {
	if !w.restored {
		if len(env) == 0 {
			return []byte(birth.GoPacket), "", nil
		}
		_, all := environment(w.trees, env)
		packet, err = (birth.Claim{Env: all}).Packet()
		return packet, "", err
	}
	if env == nil {
		env = w.spec.Env
	}
	_, all := environment(w.trees, env)
	self := birth.Self{Sandbox: string(w.id), Hostname: w.spec.Hostname, Template: templateID(w.spec), Env: all, Seed: make([]byte, 32), Nonce: rand.Text()}
	rand.Read(self.Seed)
	data, err := json.Marshal(self)
	if err != nil {
		return nil, "", err
	}
	if packet = append([]byte(birth.SelfPacket), data...); len(packet) > birth.MaxPacket {
		return nil, "", fmt.Errorf("a packet of %d bytes; at most %d are allowed", len(packet), birth.MaxPacket)
	}
	return packet, self.Nonce, nil
}

// awaitSelf waits for a restored guest's word that it is who it was told to be.
func (c *child) awaitSelf(nonce string) error {
	for range 16 { // what it said before it was saved may come first
		b, fd, err := c.receive()
		if fd >= 0 {
			unix.Close(fd)
		}
		if err != nil {
			return err
		}
		var r birth.Report
		if json.Unmarshal(b, &r) != nil || r.Nonce != nonce {
			continue
		}
		return reported(b)
	}
	return errors.New("the restored guest does not say who it is")
}

// Kill ends the wait and the guest. See sandbox.Machine.
func (w *waiting) Kill(ctx context.Context) (api.Proof, error) {
	w.claim.Lock()
	if w.conn != nil {
		w.conn.conn.Close()
		w.conn = nil
	}
	w.claim.Unlock()
	return w.machine.Kill(ctx)
}
