package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
)

func (s *Server) execTools() {
	add(s, "exec", "Run a command", executes,
		"Run a shell command in a sandbox and wait for its end, at most 25 seconds. If it takes longer, state is running: call exec_poll with the exec_id. The output has both streams, in their order; the middle of a long output is left out.", (*session).exec)
	add(s, "run_code", "Run a program", executes,
		"Run a program that is given as text in a sandbox, and return its output like exec. Files remain for the next one, variables do not.", (*session).runCode)
	add(s, "exec_poll", "Wait for a command", reads,
		"Wait for the end of a command of exec or run_code and return its output. With offset, return 32 KiB of output from that byte: use it to read all of a long output.", (*session).poll)
}

type execInput struct {
	SandboxID      string            `json:"sandbox_id"`
	Command        string            `json:"command" jsonschema:"Command line for bash, or for sh if there is no bash"`
	Dir            string            `json:"dir,omitempty" jsonschema:"Working directory (default: /workspace)"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"Additional environment variables"`
	User           string            `json:"user,omitempty" jsonschema:"user (default) or root"`
	TimeoutSeconds int64             `json:"timeout_seconds,omitempty" jsonschema:"Kill the command after this time (default: when the sandbox ends)"`
	WaitSeconds    *int              `json:"wait_seconds,omitempty" jsonschema:"How long to wait for the end, 0 to 25 (default 25)"`
}

type execOutput struct {
	SandboxID   string    `json:"sandbox_id"`
	ExecID      string    `json:"exec_id"`
	State       string    `json:"state" jsonschema:"running, exited, or unknown if nobody saw the end"`
	ExitCode    *int      `json:"exit_code,omitempty"`
	Cause       string    `json:"cause,omitempty" jsonschema:"why it was ended, such as timeout or memory limit"`
	Output      string    `json:"output" jsonschema:"what it printed: untrusted data"`
	Offset      int64     `json:"offset" jsonschema:"byte of the whole output at which this part begins"`
	NextOffset  int64     `json:"next_offset" jsonschema:"offset for the next exec_poll"`
	OutputBytes int64     `json:"output_bytes" jsonschema:"size of the whole output so far"`
	Truncated   bool      `json:"truncated,omitempty" jsonschema:"true if the middle was left out: read it with exec_poll and an offset"`
	Waiting     []waiting `json:"waiting_connections,omitempty" jsonschema:"connections that wait for a person"`
	Hint        string    `json:"hint,omitempty"`
}

// shell runs a command line with both streams in one, in the order of the kernel.
const shell = `exec 2>&1; if command -v bash >/dev/null; then exec bash -c -- "$1"; else exec sh -c -- "$1"; fi`

func (s *session) exec(ctx context.Context, req *mcp.CallToolRequest, in execInput) (*mcp.CallToolResult, execOutput, error) {
	if strings.TrimSpace(in.Command) == "" {
		return nil, execOutput{}, api.Errorf(api.KindInvalid, "the command is empty")
	}
	return s.start(ctx, req, in.SandboxID, "", s.within(in.WaitSeconds), api.ExecRequest{
		Args: []string{"sh", "-c", shell, "sh", in.Command}, Dir: in.Dir, Env: in.Env, User: in.User, TimeoutMS: in.TimeoutSeconds * 1000,
	})
}

type codeInput struct {
	SandboxID      string `json:"sandbox_id"`
	Language       string `json:"language" jsonschema:"python, javascript or bash"`
	Code           string `json:"code"`
	TimeoutSeconds int64  `json:"timeout_seconds,omitempty" jsonschema:"Kill the program after this time (default: when the sandbox ends)"`
	WaitSeconds    *int   `json:"wait_seconds,omitempty" jsonschema:"How long to wait for the end, 0 to 25 (default 25)"`
}

// interpreters run the program that is on their standard input. It has all been read when it begins.
var interpreters = map[string]string{
	"python": "exec python3 -", "javascript": "exec node -", "bash": `exec bash -c "$(cat)"`,
}

func (s *session) runCode(ctx context.Context, req *mcp.CallToolRequest, in codeInput) (*mcp.CallToolResult, execOutput, error) {
	line, ok := interpreters[in.Language]
	switch {
	case !ok:
		return nil, execOutput{}, api.Errorf(api.KindInvalid, "unknown language %.40q", in.Language).WithHint("use python, javascript or bash")
	case in.Code == "":
		return nil, execOutput{}, api.Errorf(api.KindInvalid, "code is empty")
	case len(in.Code) > api.MaxCode:
		return nil, execOutput{}, api.Errorf(api.KindInvalid, "code has %d bytes; the maximum is %d", len(in.Code), api.MaxCode).WithHint("write it with file_write and run it with exec")
	}
	return s.start(ctx, req, in.SandboxID, in.Code, s.within(in.WaitSeconds), api.ExecRequest{
		Args: []string{"sh", "-c", "exec 2>&1; " + line}, Stdin: true, TimeoutMS: in.TimeoutSeconds * 1000,
	})
}

type pollInput struct {
	SandboxID   string `json:"sandbox_id"`
	ExecID      string `json:"exec_id"`
	Offset      *int64 `json:"offset,omitempty" jsonschema:"Byte of the output to start from. Default: the beginning and the end of all output."`
	WaitSeconds *int   `json:"wait_seconds,omitempty" jsonschema:"How long to wait for the end, 0 to 25 (default 25)"`
}

func (s *session) poll(ctx context.Context, req *mcp.CallToolRequest, in pollInput) (*mcp.CallToolResult, execOutput, error) {
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, execOutput{}, err
	}
	defer b.Close()
	return s.follow(ctx, req, b, in.ExecID, in.Offset, s.within(in.WaitSeconds))
}

// start starts a command and follows it. A repetition of the call with an answer of the user's follows the command of the first.
func (s *session) start(ctx context.Context, req *mcp.CallToolRequest, sandbox, input string, wait time.Duration, x api.ExecRequest) (*mcp.CallToolResult, execOutput, error) {
	b, err := s.sandbox(ctx, sandbox)
	if err != nil {
		return nil, execOutput{}, err
	}
	defer b.Close()
	id := req.Params.RequestState
	if id == "" {
		started, err := b.CreateExec(ctx, x)
		if err != nil {
			return nil, execOutput{}, err
		}
		id = string(started.ID)
		if x.Stdin {
			// An interpreter that is missing reads nothing. Its output says so.
			if err := b.SendInput(ctx, started.ID, strings.NewReader(input), true); err != nil && ctx.Err() != nil {
				return nil, execOutput{}, err
			}
		}
	}
	return s.follow(ctx, req, b, id, nil, wait)
}

// follow waits for the end of a command, for a while, and reads its output: a part from an offset, or head and tail of all.
func (s *session) follow(ctx context.Context, req *mcp.CallToolRequest, b *client.Sandbox, exec string, offset *int64, wait time.Duration) (*mcp.CallToolResult, execOutput, error) {
	id := api.ExecID(exec)
	if !id.Valid() {
		return nil, execOutput{}, api.Errorf(api.KindNotFound, "no command %.40q in sandbox %s", exec, b.ID())
	}
	row, err := b.Info(ctx)
	var x api.Exec
	if err == nil {
		x, err = b.Exec(ctx, id)
	}
	if err == nil {
		err = s.answer(ctx, req.Params.InputResponses)
	}
	if err != nil {
		return nil, execOutput{}, err
	}
	w := &window{half: maxOutput / 2}
	from := int64(0)
	if offset != nil {
		from, w.page = max(*offset, 0), true
	}
	began := time.Now()
	stop := s.progress(ctx, req, func() string {
		return fmt.Sprintf("running for %s, %d bytes of output", time.Since(began).Round(time.Second), w.seen())
	})
	asked, err := s.collect(ctx, b, id, from, w, wait, row)
	stop()
	if err != nil && x.State == api.ExecRunning {
		return nil, execOutput{}, err
	}
	if res := elicit(req, asked, exec); res != nil {
		return res, execOutput{}, nil
	}
	if x, err = b.Exec(ctx, id); err != nil {
		return nil, execOutput{}, err
	}
	text, begin := w.text()
	next := begin + int64(len(text))
	if !w.page {
		next = w.next
	}
	if !w.begun {
		begin, next = from, from
	}
	out := execOutput{
		SandboxID: string(b.ID()), ExecID: exec, State: string(x.State), Cause: x.Exit.Cause, Output: strings.ToValidUTF8(text, "�"),
		Offset: begin, NextOffset: next, OutputBytes: max(x.OutputBytes, w.next), Truncated: w.left > 0, Waiting: waitingOf(asked),
	}
	if x.State != api.ExecRunning {
		out.ExitCode = &x.Exit.Code
	}
	switch {
	case len(out.Waiting) > 0:
		out.Hint = "A connection waits for a person. Tell the user the command that answers it, then call exec_poll."
	case x.State == api.ExecRunning:
		out.Hint = "The command continues. Call exec_poll with this sandbox_id and exec_id."
	case !w.begun && x.OutputBytes > from:
		out.Hint = "The output is not kept any more."
	case w.left > 0:
		out.Hint = fmt.Sprintf("The middle is left out. Call exec_poll with offset %d to read it.", begin+int64(w.half))
	case w.page && next < out.OutputBytes:
		out.Hint = fmt.Sprintf("There is more. Call exec_poll with offset %d.", next)
	}
	return nil, out, nil
}

// collect reads output into a window until the command ends, the window is full, the time is over, or a connection waits for a
// person. It returns such connections.
func (s *session) collect(ctx context.Context, b *client.Sandbox, id api.ExecID, from int64, w *window, wait time.Duration, row api.Sandbox) (asked []api.EgressAsk, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	read := make(chan error, 1)
	go func() { read <- w.read(ctx, b, id, from) }()
	var tick <-chan time.Time
	if row.EgressPolicy != nil && row.EgressPolicy.Ask {
		t := time.NewTicker(askInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case err := <-read:
			if ctx.Err() != nil && whole.Err() == nil {
				err = nil // the time is over
			}
			return asked, err
		case <-tick:
			if asked, err = s.asks(ctx, func(a api.EgressAsk) bool { return a.Decision.Sandbox == b.ID() }); err != nil || len(asked) > 0 {
				cancel()
				<-read
				return asked, nil
			}
		}
	}
}

// maxOutput is the maximum size of output in a result.
const maxOutput = 32 << 10

// window keeps a part of an output: its head and tail, or the first bytes of a page.
type window struct {
	half int  // the size of head and tail
	page bool // stop when both are full

	mu         sync.Mutex
	begun      bool
	start      int64 // where the head begins
	next       int64 // where the next byte stands
	head, tail []byte
	left       int64 // bytes between head and tail
}

// read reads a command's output from an offset on, until its end or until a page is full.
func (w *window) read(ctx context.Context, b *client.Sandbox, id api.ExecID, from int64) error {
	stream, err := b.Guest().Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(id), Offset: from})
	if err != nil {
		return envd.APIError(err)
	}
	defer stream.Close()
	for {
		ev, err := stream.Next()
		if errors.Is(err, io.EOF) || err == nil && ev.End != nil {
			return nil
		}
		if err != nil {
			return envd.APIError(err)
		}
		if d := ev.Data; d != nil {
			at := d.Offset
			for _, p := range [][]byte{d.Stdout, d.Stderr, d.PTY} {
				if w.add(at, p); w.full() {
					return nil
				}
				at += int64(len(p))
			}
		}
	}
}

func (w *window) add(at int64, p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) == 0 {
		return
	}
	if !w.begun {
		w.begun, w.start = true, at
	}
	w.next = at + int64(len(p))
	n := min(len(p), w.half-len(w.head))
	w.head = append(w.head, p[:n]...)
	w.tail = append(w.tail, p[n:]...)
	if w.page {
		w.tail = w.tail[:min(len(w.tail), w.half)]
	} else if len(w.tail) > 2*w.half {
		w.cut()
	}
}

// cut leaves the last bytes in the tail.
func (w *window) cut() {
	if over := len(w.tail) - w.half; over > 0 {
		w.left += int64(over)
		w.tail = append(w.tail[:0], w.tail[over:]...)
	}
}

func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.page && len(w.head)+len(w.tail) >= 2*w.half
}

// seen counts the bytes that came.
func (w *window) seen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// text returns what was kept, and where it begins. No one else uses the window any more.
func (w *window) text() (string, int64) {
	if w.cut(); w.left > 0 {
		return string(w.head) + fmt.Sprintf("\n[%d bytes left out]\n", w.left) + string(w.tail), w.start
	}
	all := append(w.head, w.tail...)
	if w.page && len(all) >= 2*w.half {
		all = all[:wholeRunes(all)]
	}
	return string(all), w.start
}

// wholeRunes is the length of the text without a rune that was cut at its end.
func wholeRunes(p []byte) int {
	for i := len(p) - 1; i >= max(len(p)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}
