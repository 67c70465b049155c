package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
)

const (
	// workOrderPath is where the runner finds its work order.
	workOrderPath = "/tmp/.hortus-work-order"
	// untilHeld is how long a sandbox lives that nobody took hold of.
	untilHeld = time.Minute
	// destroyTimeout bounds the end of a sandbox.
	destroyTimeout = time.Minute
	// retireMargin is how long before the end of the sandbox the runner gives its session
	// back, so that it continues in another one.
	retireMargin = 5 * time.Minute
	// maxTail bounds what is shown of a runner that failed, in bytes.
	maxTail = 1 << 10
)

// session makes a sandbox for an order, runs the runner in it and destroys it. It sends to
// began once: nil when the runner has started, or why it has not. ctx is that of the hook: if
// it ends before, the order was not taken.
func (r *relay) session(ctx context.Context, o order, began chan<- error) {
	// A relay that stops makes no more sandboxes.
	start, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	s, release, err := r.sandbox(start, o)
	if err != nil {
		began <- err
		return
	}
	// Answered last: the same order may come again when nothing is left of this one.
	var unstarted error
	defer func() {
		if unstarted != nil {
			began <- unstarted
		}
	}()
	defer s.Close()
	// Killing first and releasing afterwards gives the kill's proof to us.
	defer release()
	defer r.destroy(s, &o)
	out := &tail{}
	cmd := r.runner(s, o, out)
	if err = cmd.Start(); err == nil {
		if err = ctx.Err(); err != nil {
			r.end(cmd, 9)
			_ = cmd.Wait()
		}
	}
	if err != nil {
		unstarted = fmt.Errorf("start the runner: %w", err)
		return
	}
	r.cfg.note("%s: the runner started in sandbox %s", o.name(), s.ID())
	began <- nil
	stop := context.AfterFunc(r.ctx, func() { r.end(cmd, 15) })
	err = cmd.Wait()
	stop()
	var exit *client.ExitError
	switch {
	case err == nil:
		r.cfg.note("%s: the runner has ended", o.name())
	case errors.As(err, &exit):
		r.cfg.note("%s: the runner has failed: %v: %s", o.name(), exit, out)
	default:
		r.cfg.note("%s: the runner was lost: %v", o.name(), err)
	}
}

// sandbox makes the sandbox of an order, with the work order in it. It ends with this process.
func (r *relay) sandbox(ctx context.Context, o order) (*client.Sandbox, func(), error) {
	req := r.cfg.request
	req.Labels = maps.Clone(req.Labels)
	if req.Labels == nil {
		req.Labels = map[string]string{}
	}
	req.Labels["claude-order"] = o.ID
	if o.Session != "" {
		req.Labels["claude-session"] = o.Session
	}
	// Short, should this process be killed before it holds the sandbox.
	ttl := time.Duration(req.TTLMS) * time.Millisecond
	req.TTLMS = min(req.TTLMS, untilHeld.Milliseconds())
	s, err := r.cfg.client.Sandboxes.Create(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	release, err := s.Hold(ctx)
	if err == nil {
		if _, err = s.SetTTL(ctx, ttl); err == nil {
			err = s.WriteFile(ctx, "", workOrderPath, strings.NewReader(o.WorkOrder))
		}
		if err == nil {
			return s, release, nil
		}
		defer release()
	}
	r.destroy(s, &o)
	s.Close()
	return nil, nil, err
}

// runner is the command of the runner.
func (r *relay) runner(s *client.Sandbox, o order, out *tail) *client.Cmd {
	ttl := time.Duration(r.cfg.request.TTLMS) * time.Millisecond
	retire := time.Now().Add(ttl - min(retireMargin, ttl/4))
	args := append([]string{"self-hosted-runner", "--environment-secret-file", workOrderPath, "--capacity", "1", "--health-port", "0",
		"--client-label", string(s.ID()), "--retire-at", fmt.Sprint(retire.Unix())}, r.cfg.args...)
	cmd := s.Command(r.life, r.cfg.claude, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if o.AgentProxy != "" {
		cmd.Env = map[string]string{"SELF_HOSTED_RUNNER_AGENT_PROXY_URL": o.AgentProxy}
	}
	return cmd
}

// end sends a signal to the runner. The sandbox is destroyed whether or not it arrives.
func (r *relay) end(cmd *client.Cmd, signal int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.life), destroyTimeout)
	defer cancel()
	_ = cmd.Signal(ctx, signal)
}

// destroy ends a sandbox and wants the proof.
func (r *relay) destroy(s *client.Sandbox, o *order) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.life), destroyTimeout)
	defer cancel()
	k, err := s.Kill(ctx)
	switch kind := api.KindOf(err); {
	case kind == api.KindConflict, kind == api.KindNotFound: // it has ended by itself
	case err != nil:
		r.cfg.note("%s: sandbox %s could not be destroyed: %v; it ends at its time to live at the latest", o.name(), s.ID(), err)
	case k.Proof.Left > 0:
		r.cfg.note("%s: %d processes of sandbox %s are left", o.name(), k.Proof.Left, s.ID())
	}
}

// tail keeps the end of what is written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-maxTail):]...)
	if n := len(t.b) - maxTail; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

// String returns it on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.b)), " ")
}

type spawnCmd struct {
	Socket string `arg:"" help:"Socket of the relay."`
}

// orderAnswer is what the relay says to an order.
type orderAnswer struct {
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
	var said orderAnswer
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
func handOver(ctx context.Context, socket string, o order) (orderAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	var said orderAnswer
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
