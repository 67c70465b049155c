package bench

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/bench/outgoing"
)

// outgoing measures connections that leave sandboxes.
func (r *run) outgoing(ctx context.Context) error {
	return outgoing.Measure(ctx, outgoing.Config{
		N: r.n, Backends: r.backends, Report: r.report, Step: r.step, Fill: fill, Resident: resident, Sandboxes: r.Sandboxes,
		Secret: func(ctx context.Context, b secrets.Binding, value string) (api.SecretGrant, func(), error) {
			return store(ctx, r.Secrets, b, value)
		},
		Create: func(ctx context.Context, backend string, cpus float64, grant api.SecretGrant) (api.SandboxID, error) {
			req := r.busy(ctx, backend)
			req.Secrets = []api.SecretGrant{grant}
			if req.Limits.CPUs > 0 {
				req.Limits.CPUs = cpus
			}
			s, err := cold.create(ctx, r.Sandboxes, req)
			return s.ID, err
		},
		Kill: r.kill, In: r.in, CPU: r.cpuOf, Divert: r.Divert,
		Talk: func(ctx context.Context, id api.SandboxID, argv []string) (outgoing.Talk, error) {
			t, err := r.talkTo(ctx, id, argv)
			if err != nil {
				return outgoing.Talk{}, err
			}
			return outgoing.Talk{Ask: t.ask, Close: t.close}, nil
		},
	})
}

// store stores a secret of the operator's under a name that no other has.
func store(ctx context.Context, all Secrets, b secrets.Binding, value string) (grant api.SecretGrant, remove func(), err error) {
	if all == nil {
		return grant, nil, api.Errorf(api.KindUnsupported, "this daemon keeps no secrets")
	}
	grant.Name = "bench-" + strings.ToLower(rand.Text())
	if _, err := all.Set(ctx, "", grant.Name, secrets.Set{Value: value, Bindings: []secrets.Binding{b}}); err != nil {
		return grant, nil, err
	}
	return grant, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, _ = all.Remove(ctx, "", grant.Name) // it is bound to a server that has ended
	}, nil
}
