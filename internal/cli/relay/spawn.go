package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

type spawnCmd struct {
	Socket string `arg:"" help:"Socket of the relay."`
}

// answered is what the relay says to an order.
type answered struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

// spawnTimeout bounds the hook; the orchestrator gives it 60 s by default.
const spawnTimeout = 55 * time.Second

// Run hands the order of the environment over. Its exit code is what the orchestrator expects
// of its hook: 0 for an order that was taken, 1 to try again, 2 not to.
func (c *spawnCmd) Run(ctx app.Context, a *app.App) error {
	o := order{
		ID: a.Getenv("CLAUDE_RUNNER_ORDER_ID"), Session: a.Getenv("CLAUDE_RUNNER_SESSION_ID"),
		AgentProxy: a.Getenv("SELF_HOSTED_RUNNER_AGENT_PROXY_URL"),
	}
	var err error
	if o.WorkOrder, err = readWorkOrder(a.Getenv("CLAUDE_RUNNER_WORK_ORDER_FILE")); err == nil {
		err = o.check()
	}
	var said answered
	if err == nil {
		said, err = handOver(ctx, c.Socket, o)
	}
	switch {
	case err != nil:
		return &app.Failure{Code: codeOf(err), Err: err}
	case said.Code == 0:
		return nil
	case said.Code == codeRetry || said.Code == codeStop:
		return &app.Failure{Code: said.Code, Err: errors.New(said.Message)}
	}
	return &app.Failure{Code: codeRetry, Err: api.Errorf(api.KindInternal, "the relay gave the unknown code %d", said.Code)}
}

// readWorkOrder reads the file that the orchestrator deletes after the hook.
func readWorkOrder(path string) (string, error) {
	if path == "" {
		return "", nil // order.check says what is missing
	}
	f, err := os.Open(path)
	if err != nil {
		return "", api.Errorf(api.KindUnavailable, "CLAUDE_RUNNER_WORK_ORDER_FILE: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxWorkOrder+2))
	if err != nil {
		return "", api.Errorf(api.KindUnavailable, "CLAUDE_RUNNER_WORK_ORDER_FILE: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// handOver sends an order to the relay.
func handOver(ctx context.Context, socket string, o order) (answered, error) {
	ctx, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	var said answered
	b, err := json.Marshal(o)
	if err != nil {
		return said, api.Errorf(api.KindInternal, "the order: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://relay/orders", bytes.NewReader(b))
	if err != nil {
		return said, api.Errorf(api.KindInternal, "the order: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return said, api.Errorf(api.KindUnavailable, "the relay does not answer: %w", err).WithHint("start it: hortus relay claude")
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&said); err != nil || resp.StatusCode != http.StatusOK {
		return said, api.Errorf(api.KindUnavailable, "the relay's answer was cut: %s", resp.Status)
	}
	return said, nil
}
