package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"hortus.dev/api"
	wait "hortus.dev/test/patience"
)

// patience bounds every wait for a sandbox. It is no measure: what takes that
// long does not end.
var patience = wait.Of(5 * time.Minute)

// managed is the container backend with the host template, behind the manager as
// the daemon wires it, without a pool.
type managed struct{ *pooled }

func newManaged(t *testing.T) managed {
	t.Helper()
	return managed{newPooled(t, 0)}
}

// room starts a sandbox with the room that a compiler or a browser wants, as far
// as this host can bound it. It is killed with the test.
func (m managed) room(t *testing.T) api.Sandbox {
	t.Helper()
	req := api.CreateSandbox{Isolation: "container", TTLMS: (2 * patience).Milliseconds(),
		Limits: api.Limits{CPUs: 2, MemoryBytes: 2 << 30, DiskBytes: 1 << 30, Processes: 512}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := m.Creator.Create(ctx, req)
	if api.KindOf(err) == api.KindUnsupported {
		req.Limits.CPUs = 0 // an ordinary user without a control group
		s, err = m.Creator.Create(ctx, req)
	}
	if err != nil {
		t.Fatalf("create: %v (%s)", err, api.HintOf(err))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, proof, err := m.Sandboxes.Kill(ctx, s.ID); err != nil || proof.Left != 0 {
			t.Errorf("kill: %+v, %v", proof, err)
		}
	})
	return s
}

// bash runs a script to its end.
func (m managed) bash(t *testing.T, id api.SandboxID, user, script string) (stdout, stderr string, exit api.Exit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := m.Guests.StartExec(ctx, id, api.ExecRequest{Args: []string{"bash", "-ec", script}, User: user})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	var out, errs bytes.Buffer
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out.String(), errs.String(), s.Exec().Exit
		}
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
			errs.Write(ev.Data.Stderr)
		}
	}
}
