package interpreter

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

//go:embed kernel.py
var kernelPython string

//go:embed kernel.cjs
var kernelNode string

//go:embed kernel.sh
var kernelBash string

// language is a kind of context.
type language struct {
	name    string
	names   []string // other names of it
	program string
	args    []string // the last one is the kernel's text, for node the file that has it
}

var languages = []language{
	{name: "python", names: []string{"python3", "py"}, program: "python3", args: []string{"-c", kernelPython}},
	{name: "javascript", names: []string{"js", "node", "typescript", "ts"}, program: "node", args: []string{kernelNode}},
	{name: "bash", names: []string{"sh", "shell"}, program: "bash", args: []string{"--noprofile", "--norc", "-c", kernelBash}},
}

func (l language) found() bool {
	_, err := exec.LookPath(l.program)
	return err == nil
}

// languageOf finds a language by its name; "" is python.
func languageOf(name string) (l language, err error) {
	name = strings.ToLower(name)
	i := slices.IndexFunc(languages, func(l language) bool { return l.name == name || slices.Contains(l.names, name) })
	if name == "" {
		i = 0
	}
	if i < 0 {
		return l, &statusError{http.StatusBadRequest, fmt.Sprintf("language %.40q is not supported: use python, javascript, typescript or bash", name)}
	}
	if l = languages[i]; !l.found() {
		return l, &statusError{http.StatusBadRequest, fmt.Sprintf("%s is not installed in this sandbox: %s needs it", l.program, l.name)}
	}
	if name == "typescript" || name == "ts" {
		l.name = "typescript" // of the same kernel, which leaves the types out
	}
	return l, nil
}

// codeContext runs pieces of code, one after the other, in one process.
type codeContext struct {
	id       string
	language language
	turn     chan struct{} // holds one value while code runs

	mu     sync.Mutex
	dir    string
	placed bool    // the directory is decided
	kernel *kernel // nil before the first code and after its end
}

func newContext(id string, l language, dir string) *codeContext {
	if dir == "" {
		dir, _ = os.UserHomeDir()
	}
	if _, err := os.Stat(dir); err != nil {
		dir = "/"
	}
	return &codeContext{id: id, language: l, dir: dir, turn: make(chan struct{}, 1)}
}

func (c *codeContext) row() contextRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return contextRow{c.id, c.language.name, c.dir}
}

// place sets the directory of a context that has run no code yet: the clients of the two APIs expect different ones.
func (c *codeContext) place(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, err := os.Stat(dir); !c.placed && err == nil && info.IsDir() {
		c.dir, c.placed = dir, true
	}
}

// interruptGrace is what code has to end after it is interrupted; then its process is killed.
const interruptGrace = 5 * time.Second

// outputGrace is how long output is read after the process of a context has ended.
const outputGrace = time.Second

// run runs code and gives its events, as lines of JSON. When the context of the call ends, the code is interrupted.
func (c *codeContext) run(ctx context.Context, code string, env map[string]string, event func([]byte)) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k, err := c.started()
	if err != nil {
		return err
	}
	mark := "\x00" + rand.Text() + "\x00"
	if err := k.ask(code, env, mark, c.language.name); err != nil {
		c.drop(k)
		return errors.New("the process of the context ended: its state is lost, the next code starts a new one")
	}
	// It is the first event: what the process says comes another way than what the code prints.
	k.count++
	event(fmt.Appendf(nil, `{"type":"number_of_executions","execution_count":%d}`, k.count))
	done, killed := ctx.Done(), (<-chan time.Time)(nil)
	outputs := 2 // descriptors whose mark is to come
	for ended := false; !ended || outputs > 0; {
		select {
		case e, ok := <-k.events:
			switch {
			case !ok:
				c.drop(k)
				event(errorEvent("ContextEnded", "the process of the context ended ("+k.end()+"): its state is lost, the next code starts a new one"))
				return nil
			case e.mark == mark:
				outputs--
			case e.mark != "": // of code that was interrupted
			case e.kind == "end":
				ended = true
			default:
				event(e.line)
			}
		case <-done:
			done, event = nil, func([]byte) {}
			c.interrupt()
			killed = time.After(interruptGrace)
		case <-killed:
			c.drop(k)
			return ctx.Err()
		}
	}
	return nil
}

// started gives the process of a context, and starts it if there is none.
func (c *codeContext) started() (*kernel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.placed = true
	if c.kernel == nil {
		k, err := startKernel(c.language, c.dir)
		if err != nil {
			return nil, err
		}
		c.kernel = k
	}
	return c.kernel, nil
}

// drop kills a process, if it still is that of the context.
func (c *codeContext) drop(k *kernel) {
	c.mu.Lock()
	if c.kernel == k {
		c.kernel = nil
	}
	c.mu.Unlock()
	k.kill()
}

// restart ends the process of a context. The next code starts a new one.
func (c *codeContext) restart() {
	c.mu.Lock()
	k := c.kernel
	c.kernel = nil
	c.mu.Unlock()
	if k != nil {
		k.kill()
	}
}

// interrupt interrupts the code that runs.
func (c *codeContext) interrupt() {
	c.mu.Lock()
	k := c.kernel
	c.mu.Unlock()
	if k != nil && len(c.turn) > 0 {
		k.interrupt()
	}
}

// kernel is the process of a context.
type kernel struct {
	cmd      *exec.Cmd
	language string
	count    int        // of pieces of code; who has the turn of the context changes it
	mu       sync.Mutex // of requests
	requests *os.File
	events   chan kernelEvent // closed when the process has ended and its output was read
	stop     chan struct{}    // closed to leave what is still to read
	once     sync.Once
}

// kernelEvent is an event of a process: a line, or the mark at the end of the output of a piece of code.
type kernelEvent struct {
	kind string
	line []byte
	mark string
}

func errorEvent(name, text string) []byte {
	line, _ := json.Marshal(map[string]string{"type": "error", "name": name, "value": text, "traceback": name + ": " + text}) // strings encode
	return line
}

func startKernel(l language, dir string) (*kernel, error) {
	args := slices.Clone(l.args)
	if l.program == "node" { // a worker needs a file
		f, err := os.CreateTemp("", "code-interpreter-*.cjs")
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString(args[len(args)-1])
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		args[len(args)-1] = f.Name()
	}
	k := &kernel{cmd: exec.Command(l.program, args...), language: l.name, events: make(chan kernelEvent), stop: make(chan struct{})}
	k.cmd.Dir = dir
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil
		}
		return r, w
	}
	in, requests := pipe()
	events, eventsIn := pipe()
	stdout, stdoutIn := pipe()
	stderr, stderrIn := pipe()
	ours, theirs = []*os.File{requests, events, stdout, stderr}, []*os.File{in, eventsIn, stdoutIn, stderrIn}
	if slices.Contains(ours, nil) {
		closeAll(ours)
		closeAll(theirs)
		return nil, errors.New("too many open files: delete contexts")
	}
	k.cmd.Stdout, k.cmd.Stderr, k.cmd.ExtraFiles = stdoutIn, stderrIn, []*os.File{in, eventsIn}
	err := k.cmd.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	k.requests = requests
	var readers sync.WaitGroup
	readers.Go(func() { k.readEvents(events) })
	readers.Go(func() { k.readOutput(stdout, "stdout") })
	readers.Go(func() { k.readOutput(stderr, "stderr") })
	go func() { // ends with the process, which kill ends
		k.cmd.Wait()
		k.killGroup() // what it started
		for _, f := range ours[1:] {
			f.SetReadDeadline(time.Now().Add(outputGrace)) // a process in a session of its own may hold its output
		}
		readers.Wait()
		closeAll(ours[1:])
		close(k.events)
	}()
	return k, nil
}

// ask sends code to the process.
func (k *kernel) ask(code string, env map[string]string, mark, language string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd.Args[0] == "bash" {
		var set strings.Builder
		for name, value := range env {
			fmt.Fprintf(&set, "local -x %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
		}
		if set.Len() > 0 {
			code = "__run() {\n" + set.String() + code + "\n}; __run"
		}
		if strings.ContainsRune(code, 0) {
			code = strings.ReplaceAll(code, "\x00", "")
		}
		_, err := fmt.Fprintf(k.requests, "%s\x00%s\x00", mark[1:len(mark)-1], code)
		return err
	}
	if env == nil {
		env = map[string]string{}
	}
	line, err := json.Marshal(map[string]any{"code": code, "env": env, "mark": mark, "language": language})
	if err != nil {
		return err
	}
	_, err = k.requests.Write(append(line, '\n'))
	return err
}

// interrupt sends SIGINT to the process and to what it started. The code of node runs where no signal reaches it.
func (k *kernel) interrupt() {
	if k.cmd.Args[0] == "node" {
		k.mu.Lock()
		io.WriteString(k.requests, "{\"interrupt\":true}\n")
		k.mu.Unlock()
	}
	syscall.Kill(-k.cmd.Process.Pid, syscall.SIGINT)
}

// kill ends the process, and waits until it has ended.
func (k *kernel) kill() {
	k.once.Do(func() {
		close(k.stop)
		k.killGroup()
		k.mu.Lock()
		k.requests.Close()
		k.mu.Unlock()
		if k.cmd.Args[0] == "node" {
			os.Remove(k.cmd.Args[len(k.cmd.Args)-1])
		}
	})
	for range k.events { // until it is closed
	}
}

func (k *kernel) killGroup() { syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL) }

// end says how a process ended whose events are over.
func (k *kernel) end() string { return k.cmd.ProcessState.String() }

func (k *kernel) send(e kernelEvent) {
	select {
	case k.events <- e:
	case <-k.stop:
	}
}

// readEvents reads the events of the process. What is none is left out.
func (k *kernel) readEvents(r io.Reader) {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var e struct{ Type string }
			switch json.Unmarshal(line, &e); {
			case e.Type != "":
				k.send(kernelEvent{kind: e.Type, line: line})
			case k.cmd.Args[0] == "bash": // its exit code
				if string(line) != "0" {
					k.send(kernelEvent{kind: "error", line: errorEvent("ExitCode", "the last command ended with exit code "+string(line))})
				}
				k.send(kernelEvent{kind: "end"})
			}
		}
		if err != nil {
			return
		}
	}
}

// readOutput reads what the code prints, and the marks between its pieces.
func (k *kernel) readOutput(r io.Reader, kind string) {
	const markLen = 28 // of a text of crypto/rand between two zero bytes
	var held []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		held = append(held, buf[:n]...)
		for len(held) > 0 {
			at := bytes.IndexByte(held, 0)
			text := held
			if at >= 0 {
				text = held[:at]
			} else if err == nil {
				text = held[:whole(held)]
			}
			if len(text) > 0 {
				line, _ := json.Marshal(map[string]any{"type": kind, "text": string(text), "timestamp": time.Now().UnixNano()}) // strings encode
				k.send(kernelEvent{kind: kind, line: line})
			}
			held = held[len(text):]
			if at < 0 {
				break
			}
			if len(held) < markLen && err == nil {
				break // the rest of a mark is to come
			}
			if len(held) >= markLen && held[markLen-1] == 0 {
				k.send(kernelEvent{mark: string(held[:markLen])})
				held = held[markLen:]
			} else {
				held = held[1:] // a zero byte that the code printed
			}
		}
		if err != nil {
			return
		}
	}
}

// whole is how many bytes of p end with a whole character of UTF-8.
func whole(p []byte) int {
	for i := 1; i <= min(utf8.UTFMax, len(p)); i++ {
		if utf8.RuneStart(p[len(p)-i]) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return len(p) - i
			}
			break
		}
	}
	return len(p)
}
