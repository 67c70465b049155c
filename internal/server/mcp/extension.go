package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
)

// extensionTasks is the extension of the protocol for calls that take long (SEP-2663). A client that has it gets a task instead of a
// handle, and its model only sees the end. Here such a task is the record of a command or of a task of the API.
const extensionTasks = "io.modelcontextprotocol/tasks"

// pollInterval is how often a client should ask.
const pollInterval = 2 * time.Second

// States of a task of the extension. A command or task that fails is completed; "failed" is for errors of the protocol.
const (
	statusWorking   = "working"
	statusInput     = "input_required"
	statusCompleted = "completed"
	statusCancelled = "cancelled"
)

// longTask is a task of the extension on the wire.
type longTask struct {
	mcp.ResultBase
	ResultType     string              `json:"resultType"`
	TaskID         string              `json:"taskId"`
	Status         string              `json:"status"`
	StatusMessage  string              `json:"statusMessage,omitempty"`
	CreatedAt      time.Time           `json:"createdAt"`
	LastUpdatedAt  time.Time           `json:"lastUpdatedAt"`
	TTLMS          *int64              `json:"ttlMs"`
	PollIntervalMS int64               `json:"pollIntervalMs"`
	InputRequests  mcp.InputRequestMap `json:"inputRequests,omitempty"`
	Result         *longResult         `json:"result,omitempty"`
}

// longResult is what the call would have returned.
type longResult struct {
	ResultType string        `json:"resultType"`
	Content    []mcp.Content `json:"content"`
	Structured any           `json:"structuredContent"`
}

// longDone says that a request about a task was taken.
type longDone struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

type longParams struct {
	mcp.ParamsBase
	TaskID         string               `json:"taskId"`
	InputResponses mcp.InputResponseMap `json:"inputResponses,omitempty"`
}

// long is the output of a tool that can take longer than a call. It has the identifier of what continues, or none.
type long interface{ longID() string }

func (x execOutput) longID() string {
	if x.State != string(api.ExecRunning) {
		return ""
	}
	return x.SandboxID + "/" + x.ExecID
}

func (t taskOutput) longID() string {
	if t.State == string(api.TaskDone) {
		return ""
	}
	return t.TaskID
}

// wantsTask reports whether a call can be answered with a task. A model that says how long it waits wants the handle.
func wantsTask(input any) bool {
	switch in := input.(type) {
	case execInput:
		return in.WaitSeconds == nil
	case codeInput:
		return in.WaitSeconds == nil
	case runInput, taskInput:
		return true
	}
	return false
}

// longKey is the context's key of where a tool notes the identifier of what continues.
type longKey struct{}

// note notes that a call continues, if its client has the extension.
func note(ctx context.Context, input, output any) {
	if id, ok := ctx.Value(longKey{}).(*string); ok && wantsTask(input) {
		if l, ok := output.(long); ok {
			*id = l.longID()
		}
	}
}

// extend adds the extension to a server. It also refuses methods that the SDK serves although the server has nothing for them.
func (s *session) extend(to *mcp.Server) {
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		// The middleware answers: only it sees what the client can do. So the handler is not reached.
		handler := func(context.Context, *mcp.ServerSession, *longParams) (*longTask, error) {
			return nil, errMethod(method)
		}
		if err := mcp.AddReceivingCustomMethod(to, method, handler); err != nil {
			panic(fmt.Sprintf("method %s: %v", method, err)) // the methods are those above
		}
	}
	to.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.CallToolRequest:
				if !hasTasks(r.ProtocolVersion(), r.ClientCapabilities()) {
					break
				}
				var id string
				res, err := next(context.WithValue(ctx, longKey{}, &id), method, req)
				if err != nil || id == "" {
					return res, err
				}
				return s.serveLong(ctx, "tools/call", &longParams{TaskID: id}, r.ClientCapabilities())
			case *mcp.ServerRequest[*longParams]:
				if err := checkLong(method, r); err != nil {
					return nil, err
				}
				return s.serveLong(ctx, method, r.Params, r.ClientCapabilities())
			}
			switch namespace, _, _ := strings.Cut(method, "/"); namespace {
			case "prompts", "resources", "completion":
				return nil, errMethod(method)
			}
			return next(ctx, method, req)
		}
	})
}

func errMethod(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("no method %q", method)}
}

// hasTasks reports whether a client has the extension, which older versions of the protocol do not have.
func hasTasks(version string, caps *mcp.ClientCapabilities) bool {
	return version >= "2026-07-28" && caps != nil && caps.Extensions[extensionTasks] != nil
}

// checkLong checks what comes with a request about a task.
func checkLong(method string, r *mcp.ServerRequest[*longParams]) error {
	switch {
	case r.ProtocolVersion() < "2026-07-28":
		return errMethod(method)
	case !hasTasks(r.ProtocolVersion(), r.ClientCapabilities()):
		return &jsonrpc.Error{
			Code: mcp.CodeMissingRequiredClientCapabilities, Message: method + " needs the extension " + extensionTasks,
			Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extensionTasks + `":{}}}}`),
		}
	case r.Extra != nil && r.Extra.Header != nil && r.Extra.Header.Get("Mcp-Name") != r.Params.TaskID:
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the header Mcp-Name is not the taskId"}
	}
	return nil
}

// serveLong answers a call that continues with a task, and the requests about it.
func (s *session) serveLong(ctx context.Context, method string, p *longParams, caps *mcp.ClientCapabilities) (mcp.Result, error) {
	call, t := *s, (*longTask)(nil)
	var err error
	if call.client, err = s.connect(ctx); err == nil {
		if sandbox, exec, ok := strings.Cut(p.TaskID, "/"); ok {
			t, err = call.longExec(ctx, sandbox, exec, method == "tasks/cancel", caps)
		} else {
			t, err = call.longTask(ctx, p.TaskID, method == "tasks/cancel", caps)
		}
	}
	if err == nil && method == "tasks/update" {
		err = call.answer(ctx, p.InputResponses)
	}
	switch kind := api.KindOf(err); {
	case kind == api.KindNotFound || kind == api.KindInvalid:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: explain(err).Error()}
	case err != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: explain(err).Error()}
	case method == "tools/call":
		t.ResultType, t.Result, t.InputRequests = "task", nil, nil
	case method != "tasks/get":
		return &longDone{ResultType: "complete"}, nil
	}
	return t, nil
}

// longExec is the task of a command, which is ended first if kill is set.
func (s *session) longExec(ctx context.Context, sandbox, exec string, kill bool, caps *mcp.ClientCapabilities) (*longTask, error) {
	id := api.ExecID(exec)
	if !id.Valid() {
		return nil, api.Errorf(api.KindNotFound, "no task %.80q", sandbox+"/"+exec)
	}
	b, err := s.sandbox(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	row, err := b.Info(ctx)
	if err != nil {
		return nil, err
	}
	x, err := b.Exec(ctx, id)
	if err == nil && kill && x.State == api.ExecRunning {
		// A command that has just ended is not canceled.
		if _, err = b.KillExec(ctx, id); err == nil || api.KindOf(err) == api.KindConflict {
			x, err = b.Exec(ctx, id)
		}
	}
	if err != nil {
		return nil, err
	}
	t := newLong(sandbox+"/"+exec, x.StartedAt, x.EndedAt)
	if !row.ExpiresAt.IsZero() {
		left := row.ExpiresAt.Sub(x.StartedAt).Milliseconds()
		t.TTLMS = &left
	}
	switch {
	case x.State == api.ExecRunning:
		t.StatusMessage = fmt.Sprintf("running, %d bytes of output", x.OutputBytes)
		asks, err := s.asks(ctx, func(a api.EgressAsk) bool { return a.Decision.Sandbox == b.ID() })
		return t.ask(asks, caps), err
	case x.Exit.Cause == api.CauseKilled, x.Exit.Cause == "" && x.Exit.Signal == "SIGKILL":
		t.Status = statusCancelled
		return t, nil
	}
	none := 0
	_, out, err := s.follow(ctx, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}, b, exec, nil, s.within(&none))
	if err != nil {
		return nil, err
	}
	return t, t.complete(out)
}

// longTask is the task of one of the API, which is canceled first if cancel is set.
func (s *session) longTask(ctx context.Context, id string, cancel bool, caps *mcp.ClientCapabilities) (*longTask, error) {
	task, err := s.client.Tasks.Get(ctx, id)
	if err == nil && cancel && task.State != api.TaskDone {
		if _, err = s.client.Tasks.Cancel(ctx, task.ID); err == nil || api.KindOf(err) == api.KindConflict {
			task, err = s.client.Tasks.Get(ctx, id)
		}
	}
	if err != nil {
		return nil, err
	}
	t := newLong(string(task.ID), task.CreatedAt, task.EndedAt)
	switch {
	case task.State != api.TaskDone:
		t.StatusMessage = string(task.State)
		asks, err := s.asks(ctx, func(a api.EgressAsk) bool { return a.Decision.Task == task.ID })
		return t.ask(asks, caps), err
	case task.Outcome == api.OutcomeCanceled:
		t.Status = statusCancelled
		return t, nil
	}
	return t, t.complete(s.viewTask(ctx, task, ""))
}

// newLong is a task that continues, or has ended at a time.
func newLong(id string, began, ended time.Time) *longTask {
	if ended.IsZero() {
		ended = time.Now()
	}
	return &longTask{
		ResultType: "complete", TaskID: id, Status: statusWorking, CreatedAt: began.UTC(), LastUpdatedAt: ended.UTC(),
		PollIntervalMS: pollInterval.Milliseconds(),
	}
}

// ask has the client ask its user about connections that wait, or says the command that answers.
func (t *longTask) ask(asks []api.EgressAsk, caps *mcp.ClientCapabilities) *longTask {
	switch {
	case len(asks) == 0:
	case canAsk(caps):
		t.Status, t.InputRequests = statusInput, questions(asks)
	default:
		w := waitingOf(asks[:1])[0]
		t.StatusMessage = fmt.Sprintf("a connection to %q, port %d, waits for a person: %s", w.Host, w.Port, w.Answer)
	}
	return t
}

// complete adds the result of the call.
func (t *longTask) complete(out any) error {
	res, err := asText(out)
	if err == nil {
		t.Status, t.Result = statusCompleted, &longResult{"complete", res.Content, out}
	}
	return err
}
