package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"hortus.dev/api"
)

// SetEgress replaces what the sandbox may connect to. Open connections that the policy does not
// allow are closed. The zero policy denies everything.
func (s *Sandbox) SetEgress(ctx context.Context, p api.EgressPolicy) (api.Sandbox, error) {
	var out api.Sandbox
	return out, s.client.call(ctx, http.MethodPut, s.path("/egress"), p, &out)
}

// AddEgressRules puts rules before the others of the sandbox's policy. Concurrent calls all
// take effect.
func (s *Sandbox) AddEgressRules(ctx context.Context, rules ...api.EgressRule) (api.Sandbox, error) {
	var out api.Sandbox
	return out, s.client.call(ctx, http.MethodPost, s.path("/egress/rules"), api.AddEgressRules{Rules: rules}, &out)
}

// EgressService lists decisions about outgoing connections, and answers the connections that
// wait for a person.
type EgressService struct{ service }

const egressPath = "/v1/egress"

func egressQuery(f api.EgressFilter) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"sandbox": string(f.Sandbox), "result": string(f.Result), "host": f.Host} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return q
}

// Page returns one page of the decisions that a filter selects, the newest first, and the
// cursor of the next page, which is "" after the last. Text in a decision that is from the
// sandbox is untrusted.
func (s *EgressService) Page(ctx context.Context, f api.EgressFilter, p api.PageRequest) ([]api.EgressDecision, string, error) {
	return readPage[api.EgressDecision](ctx, s.client, egressPath, egressQuery(f), p)
}

// All yields the decisions that a filter selects, the newest first, page by page. It ends with
// the first error.
func (s *EgressService) All(ctx context.Context, f api.EgressFilter) iter.Seq2[api.EgressDecision, error] {
	return walk[api.EgressDecision](ctx, s.client, egressPath, egressQuery(f))
}

// Asks lists the connections that wait for a person, the oldest first.
func (s *EgressService) Asks(ctx context.Context) ([]api.EgressAsk, error) {
	var out []api.EgressAsk
	return out, s.client.call(ctx, http.MethodGet, egressPath+"/asks", nil, &out)
}

// Answer allows or denies a connection that waits. It fails with KindNotFound if the connection
// no longer waits.
func (s *EgressService) Answer(ctx context.Context, id string, answer api.AnswerEgressAsk) error {
	seg, err := segment(id)
	if err != nil {
		return err
	}
	return s.client.call(ctx, http.MethodPost, egressPath+"/asks/"+seg, answer, nil)
}
