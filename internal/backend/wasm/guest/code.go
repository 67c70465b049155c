package guest

import (
	"bufio"
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	experimental "github.com/tetratelabs/wazero/experimental/sys"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/wasm/memfs"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/rpc"
)

// Bounds of a piece of code and of its value, in bytes.
const (
	maxCode  = 16 << 20
	maxValue = 16 << 20
)

var (
	//go:embed code.js
	codeJavaScript string
	//go:embed code.py
	codePython string
)

// codeLanguage is a language of code. The last of its arguments is the program that runs the code in the file that is its next
// argument, and writes events to the file after that.
type codeLanguage struct {
	name string
	cmd  string
	args []string
}

var (
	languagePython     = codeLanguage{"python", "python3", []string{"-c", codePython}}
	languageJavaScript = codeLanguage{"javascript", "qjs", []string{"--std", "-e", codeJavaScript}}

	// codeLanguages are the languages by the names that clients use.
	codeLanguages = map[string]codeLanguage{
		"": languagePython, "python": languagePython, "python3": languagePython, "py": languagePython,
		"javascript": languageJavaScript, "js": languageJavaScript, "node": languageJavaScript,
	}
)

// Code is the code interpreter of a sandbox, as the package interpreter is one of a sandbox with programs. Each piece of code is a
// command of its own, so that nothing but files remains for the next one: there are no contexts.
type Code struct {
	ids       *identity.Set
	tree      *memfs.Tree
	processes *process.Manager
}

// Serve serves the port of the code interpreter, with one request on each connection. There are no other ports: a module cannot listen.
func (i *Code) Serve(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	if n, _ := envd.ParsePort(req.URL.Query().Get("port")); n != envd.CodePort {
		return c.FailRPC(api.Errorf(api.KindUnsupported, "wasm sandboxes have no ports: a module cannot listen (capability %s)", api.CapPrograms).
			WithHint("use --isolation container"))
	}
	if req.Header.Get("Upgrade") != envd.PortProtocol {
		return c.Fail(http.StatusUpgradeRequired, "the request does not upgrade to "+envd.PortProtocol)
	}
	if _, err := io.WriteString(c.Conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+envd.PortProtocol+"\r\n\r\n"); err != nil {
		return err
	}
	in, err := http.ReadRequest(bufio.NewReader(io.LimitReader(c.Body(), maxCode+64<<10)))
	if err != nil {
		return rpc.ErrGone
	}
	defer in.Body.Close()
	w := &codeAnswer{w: c.Conn}
	switch in.Method + " " + in.URL.Path {
	case "POST /execute":
		i.execute(c, w, in.Body)
	case "GET /health":
		w.write(http.StatusOK, "application/json", []byte(`{"status":"ok"}`))
	case "GET /contexts":
		w.write(http.StatusOK, "application/json", []byte("[]"))
	default:
		w.fail(http.StatusBadRequest, noContexts)
	}
	return rpc.ErrGone // the connection ends with the answer
}

const noContexts = "wasm sandboxes have no contexts: each piece of code is a program of its own. Use files, or another isolation (--isolation container)"

// execute runs a piece of code until it ends or its client leaves.
func (i *Code) execute(c *rpc.Conn, w *codeAnswer, body io.Reader) {
	var in struct {
		Code     string            `json:"code"`
		Context  string            `json:"context_id"`
		Language string            `json:"language"`
		Env      map[string]string `json:"env_vars"`
		Dir      string            `json:"dir"`
	}
	if err := json.NewDecoder(body).Decode(&in); err != nil {
		w.fail(http.StatusBadRequest, "the body is not valid JSON of the expected form, or too large: "+err.Error())
		return
	}
	l, known := codeLanguages[strings.ToLower(in.Language)]
	switch {
	case in.Context != "":
		w.fail(http.StatusBadRequest, noContexts)
		return
	case !known:
		w.fail(http.StatusBadRequest, fmt.Sprintf("language %.40q is not supported in a wasm sandbox: use python or javascript, or another isolation (--isolation container)", in.Language))
		return
	}
	dir := "/tmp/.code-" + strings.ToLower(rand.Text())
	defer i.tree.RemoveAll(dir)
	code, events := dir+"/code", dir+"/events"
	if errno := i.tree.WriteFile(code, []byte(in.Code), 0o444); errno != 0 {
		w.fail(http.StatusInternalServerError, "write the code into the sandbox: "+errno.Error())
		return
	}
	cfg := &envd.ProcessConfig{Cmd: l.cmd, Args: append(append([]string{}, l.args...), code, events), Envs: in.Env}
	if in.Dir != "" {
		cfg.Cwd = &in.Dir
	}
	p, outputs, err := i.start(cfg)
	if err != nil {
		w.fail(http.StatusBadRequest, err.Error())
		return
	}
	left, stop := c.WatchHangup()
	defer stop()
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { // the client that leaves ends its code
		select {
		case <-left:
			i.processes.Kill(p, api.CauseKilled)
		case <-done:
		}
	})
	w.begin()
	w.event(map[string]any{"type": "number_of_executions", "execution_count": 1})
	var reads sync.WaitGroup
	for n, kind := range []string{"stdout", "stderr"} {
		reads.Go(func() { w.copy(kind, outputs[n]) })
	}
	exit := p.Await()
	reads.Wait()
	close(done)
	work.Wait()
	ended := i.events(w, events)
	if !ended && exit != 0 {
		w.event(map[string]any{"type": "error", "name": "ProgramEnded", "value": fmt.Sprintf("exit code %d", exit), "traceback": fmt.Sprintf("ProgramEnded: the program ended with exit code %d", exit)})
	}
	w.end()
}

// start starts a command and returns its output.
func (i *Code) start(cfg *envd.ProcessConfig) (p *process.Process, outputs [2]*os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, outputs, err
	}
	defer null.Close()
	files := []uintptr{null.Fd()}
	for n := range outputs {
		r, w, err := os.Pipe()
		if err != nil {
			outputs[0].Close() // which may be nil
			return nil, outputs, err
		}
		defer w.Close()
		outputs[n], files = r, append(files, w.Fd())
	}
	if p, err = i.processes.StartAttached(i.ids.Default(), cfg, files, false); err != nil {
		outputs[0].Close()
		outputs[1].Close()
	}
	return p, outputs, err
}

// events passes on what a program wrote to its file of events, and reports whether it came to its end. The program is the sandbox's:
// what it wrote is data.
func (i *Code) events(w *codeAnswer, file string) (ended bool) {
	f, errno := i.tree.Open(file, experimental.O_RDONLY|experimental.O_NOFOLLOW, 0)
	if errno != 0 {
		return false
	}
	defer f.Close()
	st := f.Stat()
	b := make([]byte, min(st.Size, maxValue))
	n, _ := f.ReadAt(b, 0)
	for line := range bytes.Lines(b[:n]) {
		var e map[string]any
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e["type"] {
		case "end":
			ended = true
		case "result", "error":
			ended = ended || e["type"] == "error"
			w.event(e)
		}
	}
	return ended
}

// codeAnswer is an answer of the code interpreter, after which the connection ends.
type codeAnswer struct {
	mu     sync.Mutex
	w      io.Writer
	broken error
}

func (a *codeAnswer) write(status int, kind string, body []byte) {
	fmt.Fprintf(a.w, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), kind, len(body), body)
}

func (a *codeAnswer) fail(status int, text string) {
	a.write(status, "text/plain; charset=utf-8", []byte(text))
}

// begin begins a stream of events, which end ends.
func (a *codeAnswer) begin() {
	_, a.broken = io.WriteString(a.w, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
}

// event writes an event. After the first failure it does nothing.
func (a *codeAnswer) event(e map[string]any) {
	line, err := json.Marshal(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.broken == nil {
		_, a.broken = fmt.Fprintf(a.w, "%x\r\n%s\n\r\n", len(line)+1, line)
	}
}

func (a *codeAnswer) end() {
	if a.broken == nil {
		io.WriteString(a.w, "0\r\n\r\n")
	}
}

// copy passes the output of a program on until its end. A character is not cut by two reads.
func (a *codeAnswer) copy(kind string, r *os.File) {
	defer r.Close()
	buf, have := make([]byte, 32<<10), 0
	for {
		n, err := r.Read(buf[have:])
		have += n
		whole := have
		if last := lastRune(buf[:have]); err == nil && !utf8.FullRune(last) {
			whole -= len(last)
		}
		if whole > 0 {
			a.event(map[string]any{"type": kind, "text": string(buf[:whole])})
		}
		have = copy(buf, buf[whole:have])
		if err != nil {
			return
		}
	}
}

// lastRune returns the bytes of the last character, which may be incomplete.
func lastRune(b []byte) []byte {
	for n := 1; n <= utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			return b[len(b)-n:]
		}
	}
	return nil
}
