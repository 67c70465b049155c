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
	_, err := f.ask(api.WithPrincipal(ctx, api.Principal{Role: api.RoleAdmin}), to, DoorV1, method, path, maxProblem)
	return err
}

// Sort sorts IDs by the node that has each: those of this one, of things that do not exist or are another account's, and of a request of another node
// are here. Those of a node that is silent are left out.
func (f *Forwarder) Sort(ctx context.Context, kind Kind, ids []string) (here []string, there map[Node][]string, err error) {
	if f == nil || arrivalOf(ctx) != nil {
		return ids, nil, nil
	}
	there = map[Node][]string{}
	p := api.PrincipalOf(ctx)
	for _, id := range ids {
		at, err := f.cfg.Directory.Locate(ctx, kind, id, false)
		switch {
		case err != nil:
			return nil, nil, err
		case at.Here || at.Ended || !p.May(at.Account):
			here = append(here, id)
		case !at.Silent:
			there[at.Node] = append(there[at.Node], id)
		}
	}
	return here, there, nil
}

// Get reads an answer of another node, of up to most bytes, for the principal of ctx. Its errors are those of Ask.
func (f *Forwarder) Get(ctx context.Context, to Node, door Door, path string, most int64) ([]byte, error) {
	return f.ask(ctx, to, door, http.MethodGet, path, most)
}

func (f *Forwarder) ask(ctx context.Context, to Node, door Door, method, path string, most int64) ([]byte, error) {
	f.remember(to)
	h := hop{door: door, to: to.ID}
	r, err := http.NewRequestWithContext(ctx, method, path, nil)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "ask node %s: %w", to.Name, err)
	}
	out := r.Clone(r.Context())
	h.rewrite(r, out)
	resp, err := f.transport.RoundTrip(out)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, api.Errorf(api.KindUnavailable, "node %s does not answer: %w", to.Name, err)
	}
	defer resp.Body.Close()
	if err := h.check(resp); errors.Is(err, errMoved) {
		return nil, api.Errorf(api.KindUnavailable, "node %s does not have it any more", to.Name)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	switch {
	case err != nil:
		return nil, broken(to, err)
	case resp.StatusCode < http.StatusMultipleChoices:
		return body, nil
	}
	var p api.Problem
	if json.Unmarshal(body, &p) != nil || p.Kind == "" {
		return nil, api.Errorf(api.KindInternal, "node %s answered %d %s", to.Name, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil, p.Err()
}
