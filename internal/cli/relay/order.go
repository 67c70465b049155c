package relay

import (
	"strings"

	"hortus.dev/api"
)

// order asks for one runner.
type order struct {
	// ID is unique for each order. The same order twice makes one sandbox.
	ID string `json:"id"`
	// Session is empty for a runner that is started ahead of sessions.
	Session string `json:"session,omitempty"`
	// WorkOrder is what the runner registers with, once.
	WorkOrder string `json:"workOrder"`
	// AgentProxy is passed on to the runner.
	AgentProxy string `json:"agentProxy,omitempty"`
}

const (
	maxOrderID    = 128
	maxWorkOrder  = 64 << 10
	maxAgentProxy = 2 << 10
)

// check refuses an order that no orchestrator sends.
func (o *order) check() error {
	for _, f := range []struct {
		what, text string
		most       int
		needed     bool
		also       string
	}{
		{"CLAUDE_RUNNER_ORDER_ID", o.ID, maxOrderID, true, "-_."},
		{"CLAUDE_RUNNER_SESSION_ID", o.Session, maxOrderID, false, "-_."},
		{"the work order", o.WorkOrder, maxWorkOrder, true, "-_.=+/"},
		{"SELF_HOSTED_RUNNER_AGENT_PROXY_URL", o.AgentProxy, maxAgentProxy, false, "-_.~:/?#[]@!$&()*+,;=%"},
	} {
		switch {
		case f.text == "" && f.needed:
			return api.Errorf(api.KindInvalid, "%s is missing", f.what).WithHint("the hook is to be run by claude self-hosted-runner orchestrator")
		case len(f.text) > f.most:
			return api.Errorf(api.KindInvalid, "%s has %d bytes; the maximum is %d", f.what, len(f.text), f.most)
		case strings.ContainsFunc(f.text, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(f.also, r))
		}):
			return api.Errorf(api.KindInvalid, "%s has a character that does not belong there", f.what)
		}
	}
	return nil
}

// name is how notes name an order.
func (o *order) name() string {
	if o.Session != "" {
		return "session " + o.Session
	}
	return "standby order " + o.ID
}

// codeOf returns the exit code of the hook: whether another try can succeed.
func codeOf(err error) int {
	switch api.KindOf(err) {
	case "":
		return 0
	case api.KindInvalid, api.KindUnauthenticated, api.KindDenied, api.KindNotFound, api.KindUnsupported, api.KindUnisolated:
		return codeStop
	}
	return codeRetry
}
