package measure

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/cmd/hortus-bench/outgoing"
	"hortus.dev/cmd/hortus-bench/restores"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// outgoing measures connections that leave sandboxes.
func (r *run) outgoing(ctx context.Context) error {
	return outgoing.Measure(ctx, outgoing.Config{
		N: r.N, Backends: r.backends, Report: r.report, Step: r.step, Sandboxes: r.Sandboxes, Outside: r.outside,
		Secret: r.secret, Kill: r.kill, In: r.in, Talk: r.talk, CPU: r.cpuOf,
		Create: func(ctx context.Context, backend string, cpus float64, grant api.SecretGrant) (api.SandboxID, error) {
			req := r.busy(ctx, backend)
			req.Secrets = []api.SecretGrant{grant}
			if req.Limits.CPUs > 0 {
				req.Limits.CPUs = cpus
			}
			s, err := r.Sandboxes.Creator.CreateCold(ctx, req)
			return s.ID, err
		},
	})
}

// secret stores a secret of the operator's under a name that no other has.
func (b *Bench) secret(ctx context.Context, bind secrets.Binding, value string) (grant api.SecretGrant, remove func(), err error) {
	grant.Name = "bench-" + strings.ToLower(rand.Text())
	if _, err := b.client.Secrets.Set(ctx, grant.Name, secrets.Set{Value: value, Bindings: []secrets.Binding{bind}}); err != nil {
		return grant, nil, err
	}
	return grant, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, _ = b.client.Secrets.Remove(ctx, grant.Name) // it is bound to a server that has ended
	}, nil
}

// restores measures trees that are mounted instead of extracted.
func (r *run) restores(ctx context.Context) error {
	return restores.Measure(ctx, restores.Config{
		N: r.N, Backends: r.backends, Trees: r.trees, Report: r.report, Step: r.step,
		Scratch: r.Workspaces.Scratch, Place: r.place, Kill: r.kill, In: r.in,
		Fork: func(ctx context.Context, id api.WorkspaceID) (remove func(context.Context) error, err error) {
			w, err := r.Workspaces.Fork(ctx, id, workspace.New{})
			return func(ctx context.Context) error { return r.Workspaces.Remove(ctx, w.ID, "it was temporary") }, err
		},
		Create: func(ctx context.Context, backend string, ws *sandbox.Workspace) (api.SandboxID, time.Duration, error) {
			if err := r.quiet(ctx); err != nil {
				return "", 0, err
			}
			req := r.busy(ctx, backend)
			return r.started(ctx, func() (api.Sandbox, error) {
				if ws != nil {
					return r.Sandboxes.Creator.CreateIn(ctx, req, *ws)
				}
				return r.Sandboxes.Creator.CreateCold(ctx, req)
			}, func(id api.SandboxID) error { return r.recorded(ctx, id) })
		},
	})
}

// place makes files that sandboxes have at /workspace, as a repository is: a read-only layer that fill
// writes into a directory, and a durable workspace over it. remove takes both away, once no sandbox has them
// any more.
func (b *Bench) place(ctx context.Context, fill func(dir string) error) (ws sandbox.Workspace, remove func(), err error) {
	sum := sha256.Sum256([]byte("bench " + rand.Text()))
	digest := layer.Digest("sha256-" + hex.EncodeToString(sum[:]))
	var lease *layer.Lease
	var made api.Workspace
	remove = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if made.ID != "" {
			_ = b.Workspaces.Remove(ctx, made.ID, "it was temporary") // what is left is nobody's, and is collected
		}
		if lease != nil {
			lease.Release()
		}
		_ = b.Layers.Remove(digest)
	}
	_, err = b.Layers.Put(ctx, digest, func(_ context.Context, dir string) (layer.Tree, error) {
		root := filepath.Join(dir, "root")
		return layer.Tree{Root: root}, errors.Join(os.Mkdir(root, 0o755), fill(root), workspace.Own(root))
	})
	if err == nil {
		_, lease, err = b.Layers.Lease(digest)
	}
	if err == nil {
		made, err = b.Workspaces.Make(ctx, workspace.New{Layers: []layer.Digest{digest}})
	}
	if err != nil {
		remove()
		return ws, nil, err
	}
	return sandbox.Workspace{Layers: []layer.Digest{digest}, Upper: made.ID}, remove, nil
}
