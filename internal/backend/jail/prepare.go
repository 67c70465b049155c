package jail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

// Prepare boots a guest for a later claim. See sandbox.Backend.
func (b *Backend) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	if len(spec.Env) > 0 {
		return nil, api.Errorf(api.KindInvalid, "a prepared guest gets its environment when it is claimed")
	}
	if spec.Workspace != nil {
		return nil, api.Errorf(api.KindInvalid, "a prepared guest cannot have a workspace")
	}
	w, err := b.boot(ctx, launch.Request{Spec: spec, Waits: true})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// warmGuest is a guest that has reported and waits for its claim.
type warmGuest struct {
	*machine
	request launch.Request

	claim sync.Mutex
	conn  *net.UnixConn // nil once claimed
}

// restored reports whether the guest comes from an image of its memory, and therefore has
// to learn who it is.
func (w *warmGuest) restored() bool { return w.request.Memory }

// Claim starts the guest's service: it says "go", or who it is to a guest from a memory
// image. See sandbox.Machine.
func (w *warmGuest) Claim(ctx context.Context, env map[string]string) error {
	w.claim.Lock()
	defer w.claim.Unlock()
	if w.conn == nil {
		return api.Errorf(api.KindConflict, "sandbox %s is already claimed", w.id)
	}
	if err := ctx.Err(); err != nil {
		return api.Errorf(api.KindOf(err), "claim sandbox %s: %w", w.id, err)
	}
	conn := w.conn
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
		err = child.AwaitSelf(conn, nonce)
	}
	if err != nil {
		kind := api.KindUnavailable
		if cerr := ctx.Err(); cerr != nil {
			kind, err = api.KindOf(cerr), cerr
		}
		return api.Errorf(kind, "claim sandbox %s: %w", w.id, err)
	}
	return nil
}

// lastPacket is the packet that ends the wait. With a nonce the guest answers, and the
// answer contains it.
func (w *warmGuest) lastPacket(env map[string]string) (packet []byte, nonce string, err error) {
	spec := w.request.Spec
	if !w.restored() {
		if len(env) == 0 {
			return []byte(birth.GoPacket), "", nil
		}
		packet, err = (birth.Claim{Env: launch.Environment(w.request.Trees, env)}).Packet()
		return packet, "", err
	}
	if env == nil {
		env = spec.Env
	}
	self := birth.Self{Sandbox: string(w.id), Hostname: spec.Hostname, Template: launch.TemplateID(spec), Env: launch.Environment(w.request.Trees, env), Default: launch.Default(spec), Seed: make([]byte, 32), Nonce: rand.Text()}
	rand.Read(self.Seed)
	data, err := json.Marshal(self)
	if err != nil {
		return nil, "", err
	}
	if packet = append([]byte(birth.SelfPacket), data...); len(packet) > birth.MaxPacket {
		return nil, "", fmt.Errorf("a packet has %d bytes, the maximum is %d", len(packet), birth.MaxPacket)
	}
	return packet, self.Nonce, nil
}

// Kill ends the wait and the guest. See sandbox.Machine.
func (w *warmGuest) Kill(ctx context.Context) (api.Proof, error) {
	w.claim.Lock()
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
	w.claim.Unlock()
	return w.machine.Kill(ctx)
}
