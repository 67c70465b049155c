package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/wasm/javascript"
	"hortus.dev/internal/backend/wasm/memfs"
)

const (
	// MaxModule is the maximum size of a module, in bytes.
	MaxModule = 64 << 20
	// overhead is what the process may allocate besides the memory of the module, in bytes:
	// the compiler of a large module needs it.
	overhead = 384 << 20
	// slack is what the runtime may allocate while a module runs, in bytes.
	slack = 64 << 20
	// codeTrap is the exit code of a module that was stopped by the runtime, such as for a
	// division by zero. It is that of SIGABRT.
	codeTrap = 134
	// codeInvalid is the exit code if the module cannot run.
	codeInvalid = 126
)

// errDone says that the guest has ended and there will be no order.
var errDone = errors.New("the guest has ended")

// Main runs one module and returns its exit code.
func Main() int {
	code, err := run(context.Background())
	if err != nil && !errors.Is(err, errDone) {
		fmt.Fprintln(os.Stderr, "wasm:", err)
	}
	return code
}

func run(ctx context.Context) (int, error) {
	// The traces of a crash would show this program's code to the module's user.
	debug.SetTraceback("none")
	var setup Setup
	if len(os.Args) != 2 {
		return codeInvalid, errors.New("this program is started by hortus and cannot be started by hand")
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &setup); err != nil {
		return codeInvalid, err
	}
	m := &machine{setup: setup}
	files := memfs.NewClient(os.NewFile(filesFD, "files"))
	if setup.Preload != "" {
		m.preload(ctx, files)
	}
	order, err := receive()
	if err != nil {
		return codeInvalid, err
	}
	if err := limitData(uint64(order.Memory)+overhead, false); err != nil {
		return codeInvalid, err
	}
	if err := m.load(ctx, order, files); err != nil {
		return codeInvalid, err
	}
	// What the compiler has used is never unmapped. It must not take from what the module may have.
	used, err := dataSize()
	if err != nil {
		return codeInvalid, err
	}
	if err := limitData(max(uint64(order.Memory)+overhead, used+uint64(order.Memory)+slack), true); err != nil {
		return codeInvalid, err
	}
	if err := giveUpCalls(); err != nil {
		return codeInvalid, err
	}
	return m.run(ctx, order, files)
}

// limitData limits what the process can map for data, within the limit of the guest. A final limit cannot be raised again.
func limitData(bytes uint64, final bool) error {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_DATA, &l)
	if err == nil {
		l.Cur = min(bytes, l.Max)
		if final {
			l.Max = l.Cur
		}
		err = unix.Setrlimit(unix.RLIMIT_DATA, &l)
	}
	return os.NewSyscallError("setrlimit", err)
}

// dataSize is what the process has mapped for data, as RLIMIT_DATA counts it.
func dataSize() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kb uint64
		if n, _ := fmt.Sscanf(line, "VmData: %d kB", &kb); n == 1 {
			return kb << 10, nil
		}
	}
	return 0, errors.New("/proc/self/status has no VmData")
}

// machine is a runtime with a compiled module.
type machine struct {
	setup   Setup
	loaded  Interpreter // empty if the module is a file
	runtime wazero.Runtime
	module  wazero.CompiledModule
}

// preload loads an interpreter before there is an order, and runs it once without any code, so
// that its pages and the types of messages are ready. If that fails, the order that needs the
// interpreter reports the error.
func (m *machine) preload(ctx context.Context, files *memfs.Client) {
	if m.load(ctx, Order{Interpreter: m.setup.Preload}, nil) != nil {
		return
	}
	if f, errno := files.OpenFile("/", 0, 0); errno == 0 {
		f.Close()
	}
	if m.loaded == JavaScript {
		cfg := wazero.NewModuleConfig().WithName("").WithArgs("qjs", "-e", "1")
		_, _ = m.runtime.InstantiateModule(ctx, m.module, cfg)
	}
}

// load compiles the module of an order, unless it is the one that is loaded.
func (m *machine) load(ctx context.Context, o Order, files *memfs.Client) error {
	if o.Interpreter != "" && m.loaded == o.Interpreter && m.module != nil {
		return nil
	}
	dir := m.setup.Cache
	if o.Interpreter == "" {
		dir = m.setup.OwnCache
	}
	code, err := m.code(o, files)
	if err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return fmt.Errorf("cache of compiled modules: %w", err)
	}
	// Without WithCloseOnContextDone, which makes code several times slower: the guest kills
	// the process.
	m.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return err
	}
	if m.module, err = m.runtime.CompileModule(ctx, code); err != nil {
		return fmt.Errorf("%s is not a valid module: %.500w", o.name(), err)
	}
	m.loaded = o.Interpreter
	return checkCommand(o, m.module)
}

// name is what errors call the module.
func (o Order) name() string {
	if o.Interpreter != "" {
		return string(o.Interpreter)
	}
	return o.File
}

// code reads the module of an order.
func (m *machine) code(o Order, files *memfs.Client) ([]byte, error) {
	switch o.Interpreter {
	case JavaScript:
		return javascript.Module()
	case Python:
		return os.ReadFile(m.setup.Python)
	}
	return readModule(files, o.File)
}

// readModule reads a module from the sandbox.
func readModule(files *memfs.Client, path string) ([]byte, error) {
	f, errno := files.OpenFile(path, 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("%s: %w", path, errno)
	}
	defer f.Close()
	st, errno := f.Stat()
	switch {
	case errno != 0:
		return nil, fmt.Errorf("%s: %w", path, errno)
	case st.Size > MaxModule:
		return nil, fmt.Errorf("%s has %d bytes; the maximum of a module is %d", path, st.Size, MaxModule)
	}
	code := make([]byte, st.Size)
	n, errno := f.Read(code)
	if errno != 0 || int64(n) != st.Size {
		return nil, fmt.Errorf("%s: %d of %d bytes were read: %w", path, n, st.Size, errno)
	}
	return code, nil
}

// checkCommand refuses a module that is no command of WASI preview 1.
func checkCommand(o Order, module wazero.CompiledModule) error {
	for _, f := range module.ImportedFunctions() {
		if from, name, _ := f.Import(); from != wasi_snapshot_preview1.ModuleName {
			return fmt.Errorf("%s imports %.100q of %.100q; only the functions of %s exist here", o.name(), name, from, wasi_snapshot_preview1.ModuleName)
		}
	}
	if _, ok := module.ExportedFunctions()["_start"]; !ok {
		return fmt.Errorf("%s is not a command: it exports no function _start", o.name())
	}
	return nil
}

// run runs the module and returns its exit code.
func (m *machine) run(ctx context.Context, o Order, files *memfs.Client) (code int, err error) {
	memory := &allocator{files: files, limit: uint64(o.Memory)}
	defer func() {
		// The runtime panics if a module does not get the memory that it begins with.
		if r := recover(); r != nil {
			code, err = codeInvalid, fmt.Errorf("%s: the runtime failed: %.500v", o.name(), r)
			if memory.refused {
				err = fmt.Errorf("%s needs more memory than the sandbox has", o.name())
			}
		}
	}()
	cfg := wazero.NewModuleConfig().WithName("").WithArgs(o.Argv...).
		WithStdin(os.Stdin).WithStdout(os.Stdout).WithStderr(os.Stderr).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader).
		WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(view{files, o.Dir}, "/"))
	for _, kv := range o.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			cfg = cfg.WithEnv(name, value)
		}
	}
	_, err = m.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, memory), m.module, cfg)
	var exit *sys.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return int(exit.ExitCode() & 0xff), nil
	}
	return codeTrap, fmt.Errorf("%s: %.2000w", o.name(), err)
}
