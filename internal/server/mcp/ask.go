package mcp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
)

// askInterval is the time between two looks at the connections that wait for a person.
const askInterval = time.Second

// waiting is a connection that waits for a person. Host and Commands are from the sandbox.
type waiting struct {
	ID       string    `json:"id"`
	Host     string    `json:"host"`
	Port     int       `json:"port"`
	Commands []string  `json:"commands,omitempty" jsonschema:"commands that were running, one of which connects"`
	Expires  time.Time `json:"expires" jsonschema:"it is denied then"`
	Answer   string    `json:"answer" jsonschema:"command for the user; replace allow with deny to refuse"`
}

func waitingOf(asks []api.EgressAsk) (out []waiting) {
	for _, a := range asks {
		out = append(out, waiting{a.ID, a.Decision.Host, a.Decision.Port, a.Decision.Commands, a.Expires, "hortus egress answer " + a.ID + " allow"})
	}
	return out
}

// asks lists the connections of the caller that wait for a person and match.
func (s *session) asks(ctx context.Context, match func(api.EgressAsk) bool) ([]api.EgressAsk, error) {
	all, err := s.client.Egress.Asks(ctx)
	return slices.DeleteFunc(all, func(a api.EgressAsk) bool { return !match(a) }), err
}

// Decisions of a person.
const (
	allowOnce   = "allow once"
	allowAlways = "allow always"
	deny        = "deny"
)

// elicit has the client ask its user about connections that wait; nil if it cannot. The call is then repeated with the answers and
// with state, which only names what the caller may see anyway.
func elicit(req *mcp.CallToolRequest, asks []api.EgressAsk, state string) *mcp.CallToolResult {
	if len(asks) == 0 || !canAsk(req.ClientCapabilities()) {
		return nil
	}
	// A client of before 2026-07-28 has answers to one round of questions passed on. Of a user who does not decide, nothing is
	// asked again.
	if answers := req.Params.InputResponses; len(answers) > 0 {
		for _, r := range answers {
			if e, ok := r.(*mcp.ElicitResult); !ok || e.Action == "cancel" || req.ProtocolVersion() < "2026-07-28" {
				return nil
			}
		}
	}
	return &mcp.CallToolResult{InputRequests: questions(asks), RequestState: state}
}

// canAsk reports whether a client can show a form to its user.
func canAsk(caps *mcp.ClientCapabilities) bool {
	return caps != nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

func questions(asks []api.EgressAsk) mcp.InputRequestMap {
	out := mcp.InputRequestMap{}
	for _, a := range asks {
		message := fmt.Sprintf("Sandbox %s connects to %q, port %d. Allow it?", a.Decision.Sandbox, a.Decision.Host, a.Decision.Port)
		if len(a.Decision.Commands) > 0 {
			command, _ := clip(a.Decision.Commands[0], 200)
			message += fmt.Sprintf(" It runs %q.", command)
		}
		out[a.ID] = &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
			"type": "object", "required": []string{"decision"},
			"properties": map[string]any{"decision": map[string]any{
				"type": "string", "title": "Decision", "enum": []string{allowOnce, allowAlways, deny},
				"description": "Allow this connection, allow all to this host and port, or deny it",
			}},
		}}
	}
	return out
}

// answer passes the answers of a client's user on. What is not a clear yes is a no, except for a dialog that was closed: then the
// connection waits on.
func (s *session) answer(ctx context.Context, answers mcp.InputResponseMap) error {
	for id, r := range answers {
		e, ok := r.(*mcp.ElicitResult)
		if !ok || e.Action == "cancel" {
			continue
		}
		a := api.AnswerEgressAsk{Action: api.EgressDeny}
		if decision := e.Content["decision"]; e.Action == "accept" && (decision == allowOnce || decision == allowAlways) {
			a = api.AnswerEgressAsk{Action: api.EgressAllow, Remember: decision == allowAlways}
		}
		if err := s.client.Egress.Answer(ctx, id, a); err != nil && api.KindOf(err) != api.KindNotFound {
			return err
		}
	}
	return nil
}
