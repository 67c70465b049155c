package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/marked"
	"hortus.dev/internal/backend/wasm/memfs"
	"hortus.dev/internal/backend/wasm/run"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/spawn"
)

// processMemory is what a command takes of the sandbox's memory besides that of its module, in
// bytes.
const processMemory = 8 << 20

// pythonDir is a directory of Python modules that stand for packages which cannot run here.
const pythonDir = "/lib/hortus-python"

// noNumPy is the module numpy.
const noNumPy = `raise ImportError("NumPy needs native code, which wasm sandboxes cannot load. Use a container: --isolation container")
`

// ProgramsConfig configures Programs.
type ProgramsConfig struct {
	Settings Settings
	Tree     *memfs.Tree
	Memory   *memfs.Budget
}

// Programs are the modules that a sandbox can run. It implements process.Programs.
type Programs struct {
	cfg ProgramsConfig

	mu      sync.Mutex
	idle    *runner         // started ahead; nil if there is none
	preload run.Interpreter // of the next runner
	live    int64           // commands
	running map[int]*runner // those with an order, by pid
}

// NewPrograms returns programs without a process.
func NewPrograms(cfg ProgramsConfig) *Programs {
	return &Programs{cfg: cfg, preload: run.JavaScript, running: map[int]*runner{}}
}

// PidFDs implements process.Programs.
func (*Programs) PidFDs() bool { return false }

// PrepareThreads implements process.Programs.
func (*Programs) PrepareThreads() error { return nil }

// Explain implements process.Programs.
func (*Programs) Explain(c *spawn.Command, cause error) error {
	if e := (*api.Error)(nil); errors.As(cause, &e) {
		return cause
	}
	return api.Errorf(api.KindInternal, "start %s: %w", c.Argv[0], cause)
}

// interpreters are the names of the interpreters as commands.
var interpreters = map[string]run.Interpreter{"qjs": run.JavaScript, "python3": run.Python, "python": run.Python}

// Prepare implements process.Programs.
func (p *Programs) Prepare(id *identity.Identity, in *envd.StartRequest) (*spawn.Command, error) {
	if in.PTY != nil {
		return nil, api.Errorf(api.KindUnsupported, "wasm sandboxes have no terminals (capability %s); leave out -t, or use --isolation container", api.CapPrograms)
	}
	cfg := in.Process
	if cfg.Cmd == "" {
		return nil, api.Errorf(api.KindInvalid, "the request has no command")
	}
	c := &spawn.Command{Identity: &id.Identity, Argv: append([]string{cfg.Cmd}, cfg.Args...), Dir: id.Base()}
	if cfg.Cwd != nil && *cfg.Cwd != "" {
		c.Dir = id.Resolve(*cfg.Cwd)
	}
	if st, errno := p.cfg.Tree.Stat(c.Dir, true); errno != 0 || !st.Mode.IsDir() {
		return nil, api.Errorf(api.KindInvalid, "cwd '%s' does not exist", c.Dir)
	}
	env := maps.Clone(id.Environment().Map)
	maps.Copy(env, cfg.Envs)
	env["PWD"] = c.Dir
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return nil, api.Errorf(api.KindInvalid, "environment variable %q: the name or value has a character that is not allowed", k)
		}
	}
	if strings.Contains(strings.Join(c.Argv, ""), "\x00") {
		return nil, api.Errorf(api.KindInvalid, "an argument contains a NUL byte")
	}
	var err error
	if c.Path, err = p.find(cfg.Cmd, c.Dir); err != nil {
		return nil, err
	}
	if c.Path == string(run.Python) {
		env["PYTHONPATH"] = strings.Trim(env["PYTHONPATH"]+":"+pythonDir, ":")
		env["PYTHONDONTWRITEBYTECODE"] = "1"
	}
	c.Env = identity.EnvList(env)
	return c, nil
}

// find returns the name of the interpreter of a command, or the absolute path of its module.
func (p *Programs) find(name, dir string) (string, error) {
	if i, ok := interpreters[name]; ok {
		if _, err := os.Stat(p.cfg.Settings.Python); i == run.Python && err != nil {
			return "", api.Errorf(api.KindNotFound, "command not found: %s: no Python is installed for wasm sandboxes; on the daemon's machine: hortus wasm install python", name)
		}
		return string(i), nil
	}
	file := name
	if !path.IsAbs(file) {
		file = path.Join(dir, file)
	}
	f, errno := p.cfg.Tree.Open(file, experimental.O_RDONLY, 0)
	if errno != 0 {
		return "", api.Errorf(api.KindNotFound, "command not found: %.200s: wasm sandboxes have no shell and no programs of a root file system (capability %s): they run qjs, python3 and the path of a WASI module; for everything else use --isolation container", name, api.CapPrograms)
	}
	defer f.Close()
	var head [8]byte
	n, _ := f.ReadAt(head[:], 0)
	switch {
	case !bytes.HasPrefix(head[:n], []byte("\x00asm")):
		return "", api.Errorf(api.KindDenied, "permission denied: %.200s: not a WebAssembly module; run a script with its interpreter: qjs FILE.js, python3 FILE.py", name)
	case string(head[4:n]) != "\x01\x00\x00\x00":
		return "", api.Errorf(api.KindUnsupported, "%.200s is not a core module of version 1; components are not supported; build it for wasm32-wasip1", name)
	}
	return file, nil
}

// Start implements process.Programs: it gives the command to a process that was started ahead.
func (p *Programs) Start(c *spawn.Command) (int, error) {
	o := run.Order{Argv: c.Argv, Env: c.Env, Dir: c.Dir, Memory: p.cfg.Settings.Memory}
	if path.IsAbs(c.Path) {
		o.File = c.Path
	} else {
		o.Interpreter = run.Interpreter(c.Path)
	}
	order, err := o.Encode()
	if err != nil {
		return 0, api.Errorf(api.KindInvalid, "start %.200s: %w", c.Argv[0], err)
	}
	p.awaitEnded()
	p.mu.Lock()
	r := p.idle
	p.idle = nil
	full := p.live >= p.cfg.Settings.Processes
	if !full {
		p.live++
	}
	if o.Interpreter != "" {
		p.preload = o.Interpreter
	}
	p.mu.Unlock()
	if full {
		p.keep(r)
		return 0, api.Errorf(api.KindExhausted, "%d commands run, which is the maximum; wait for some to end", p.cfg.Settings.Processes)
	}
	if !p.cfg.Memory.Take(processMemory) {
		p.ended(false)
		p.keep(r)
		return 0, api.Errorf(api.KindExhausted, "start %.200s: the sandbox has no memory left; remove files, or create the sandbox with more --memory", c.Argv[0])
	}
	for range 2 { // one that was started ahead may have ended
		if r == nil {
			if r, err = p.start(); err != nil {
				break
			}
		}
		if err = run.Send(r.control, order, c.Files); err == nil {
			break
		}
		r.close()
		r = nil
	}
	if err != nil {
		p.ended(true)
		return 0, err
	}
	pid := r.pid
	p.mu.Lock()
	p.running[pid] = r
	p.mu.Unlock()
	close(r.ordered)
	unix.Close(r.control)
	time.AfterFunc(aheadDelay, p.Ahead)
	return pid, nil
}

// awaitEnded waits until commands that have ended have returned what they had: their end is reported when the process is reaped, which may
// be earlier.
func (p *Programs) awaitEnded() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.running))
	p.mu.Unlock()
	for _, r := range all {
		if unix.Kill(r.pid, 0) == unix.ESRCH {
			<-r.served
		}
	}
}

// ended counts a command less.
func (p *Programs) ended(charged bool) {
	if charged {
		p.cfg.Memory.Return(processMemory)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live--
}

// runner is a process that runs one command.
type runner struct {
	pid     int
	control int
	files   *os.File
	ordered chan struct{} // closed when it has an order
	closed  chan struct{} // closed when it will have none
	served  chan struct{} // closed when it has ended and has returned what it had
}

// close ends a runner that has no order.
func (r *runner) close() {
	close(r.closed)
	unix.Close(r.control)
}

// aheadDelay is when the process for the next command is started, if the command has not ended
// before: to start one takes processor time, which the command has first.
const aheadDelay = 50 * time.Millisecond

// Ahead starts a process for the next command, unless there is one. A failure is reported when that
// command starts.
func (p *Programs) Ahead() {
	p.mu.Lock()
	have := p.idle != nil
	p.mu.Unlock()
	if have {
		return
	}
	if r, err := p.start(); err == nil {
		p.keep(r)
	}
}

// keep makes a runner the idle one.
func (p *Programs) keep(r *runner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r != nil && p.idle != nil {
		r.close()
		return
	}
	if r != nil {
		p.idle = r
	}
}

// start starts a process and serves files to it until it ends.
func (p *Programs) start() (*runner, error) {
	p.mu.Lock()
	setup := run.Setup{Cache: p.cfg.Settings.Cache, OwnCache: p.cfg.Settings.OwnCache, Python: p.cfg.Settings.Python, Preload: p.preload}
	p.mu.Unlock()
	arg, err := json.Marshal(setup)
	if err != nil {
		return nil, err
	}
	control, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(control[1])
	files, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unix.Close(control[0])
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(files[1])
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		n := null.Fd()
		var pid int
		pid, err = syscall.ForkExec("/proc/self/exe", []string{run.Argv0, string(arg)}, &syscall.ProcAttr{
			Env: []string{marked.Variable + "=" + os.Getenv(marked.Variable)}, Dir: "/",
			Files: []uintptr{n, n, n, uintptr(control[1]), uintptr(files[1])}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		if err == nil {
			unix.SetNonblock(files[0], true)
			r := &runner{pid: pid, control: control[0], files: os.NewFile(uintptr(files[0]), "files"), ordered: make(chan struct{}), closed: make(chan struct{}), served: make(chan struct{})}
			go p.serveFiles(r)
			return r, nil
		}
	}
	unix.Close(control[0])
	unix.Close(files[0])
	return nil, os.NewSyscallError("start a process", err)
}

// serveFiles serves the files of the sandbox to a process until it ends.
func (p *Programs) serveFiles(r *runner) {
	memfs.Serve(r.files, p.cfg.Tree)
	r.files.Close()
	select {
	case <-r.ordered:
		p.ended(true)
		p.mu.Lock()
		if p.running[r.pid] == r {
			delete(p.running, r.pid)
		}
		p.mu.Unlock()
		close(r.served)
		p.Ahead()
	case <-r.closed:
	}
}
