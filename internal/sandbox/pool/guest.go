package pool

import (
	"context"
	"errors"
	"io"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
)

// Guest is a guest that waits for its claim. It has run only the host's warm-up, and serves one
// sandbox only.
type Guest struct {
	ID      api.SandboxID
	Machine sandbox.Machine
	Client  *envd.Client

	// waits is the guest before its state is there; Machine and Client are nil then.
	waits sandbox.Expected
}

// prepare boots a guest, within the start timeout of its backend, and runs a command in it, so that the first command of
// its user finds everything in place: the connection, the guest's own code and
// memory, and the path to a process's end.
func prepare(ctx context.Context, b sandbox.Backend, spec sandbox.Spec) (_ *Guest, err error) {
	ctx, cancel := context.WithTimeout(ctx, sandbox.StartTimeout(b))
	defer cancel()
	m, err := b.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	g := newGuest(spec.ID, m)
	if err := g.warmUp(ctx); err != nil {
		return nil, errors.Join(err, g.kill(context.WithoutCancel(ctx)))
	}
	return g, nil
}

func newGuest(id api.SandboxID, m sandbox.Machine) *Guest {
	return &Guest{ID: id, Machine: m, Client: envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})}
}

// warmUps is how often the warm-up runs: the guest's first run is the slow one,
// the second grows its pools to what a command needs.
const warmUps = 2

func (g *Guest) warmUp(ctx context.Context) error {
	no := false
	for range warmUps {
		ps, err := g.Client.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/true"}, Stdin: &no}, envd.StartOptions{WarmUp: true})
		if err != nil {
			return apiError(err)
		}
		for err == nil {
			_, err = ps.Next()
		}
		ps.Close()
		// A template without the program warms up all but the command itself.
		if err = apiError(err); !errors.Is(err, io.EOF) && api.KindOf(err) != api.KindNotFound {
			return err
		}
	}
	return nil
}

func (g *Guest) kill(ctx context.Context) error {
	if g.waits != nil {
		g.waits.Drop()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	g.Client.Close()
	_, err := g.Machine.Kill(ctx)
	return err
}

// killTimeout bounds a kill with proof.
const killTimeout = 20 * time.Second

func apiError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		return e.API()
	}
	return err
}
