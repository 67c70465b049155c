package forward

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"hortus.dev/api"
)

// maxProblem is the maximum size of the description of an error, in bytes.
const maxProblem = 64 << 10

// Ask sends a request of this node itself to the HTTP API of another one, on behalf of the operator, and waits until it was carried out.
// The error is KindUnavailable if nothing was sent, or if it is not known what the other node did.
func (f *Forwarder) Ask(ctx context.Context, to Node, method, path string) error {
	f.remember(to)
	h := hop{door: DoorV1, to: to.ID}
	r, err := http.NewRequestWithContext(api.WithPrincipal(ctx, api.Principal{Role: api.RoleAdmin}), method, path, nil)
	if err != nil {
		return api.Errorf(api.KindInvalid, "ask node %s: %w", to.Name, err)
	}
	out := r.Clone(r.Context())
	h.rewrite(r, out)
	resp, err := f.transport.RoundTrip(out)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindUnavailable, "node %s does not answer: %w", to.Name, err)
	}
	defer resp.Body.Close()
	if err := h.check(resp); errors.Is(err, errMoved) {
		return api.Errorf(api.KindUnavailable, "node %s does not have it any more", to.Name)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
		return nil
	case err != nil:
		return broken(to, err)
	}
	var p api.Problem
	if json.Unmarshal(body, &p) != nil || p.Kind == "" {
		return api.Errorf(api.KindInternal, "node %s answered %d %s", to.Name, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return p.Err()
}
