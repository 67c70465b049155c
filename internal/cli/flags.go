package cli

import (
	"hortus.dev/api"
)

// boxFlags say what a sandbox is to be.
type boxFlags struct {
	isolationFlag
	Template string   `env:"HORTUS_TEMPLATE" complete:"templates" placeholder:"NAME" help:"What the sandbox starts from: host (this machine's own tools), a template of yours, or the id of a snapshot."`
	TTL      duration `name:"ttl" env:"HORTUS_TTL" placeholder:"DURATION" help:"How long the sandbox lives at most (default 5m)."`
	limitFlags
	Env   []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Variable for every command in it. Repeatable."`
	Label []string `short:"l" sep:"none" placeholder:"NAME=VALUE" help:"Label to find it by. Repeatable."`
}

// isolationFlag names a backend.
type isolationFlag struct {
	Isolation string `env:"HORTUS_ISOLATION" placeholder:"NAME" help:"Backend: auto (the strongest here), gvisor (a kernel of its own), container (this kernel, walled), or process (no isolation; for code that you trust)."`
}

// limitFlags bound a sandbox.
type limitFlags struct {
	Memory      size     `env:"HORTUS_MEMORY" placeholder:"SIZE" help:"Memory of all its processes together, such as 512M (default 1GiB)."`
	CPUs        *float64 `name:"cpus" env:"HORTUS_CPUS" placeholder:"N" help:"Share of processor time, in processors; 0.5 is half of one (default 1)."`
	CPUTime     duration `name:"cpu-time" env:"HORTUS_CPU_TIME" placeholder:"DURATION" help:"Total processor time of all its processes (no default)."`
	Pids        *int64   `env:"HORTUS_PIDS" placeholder:"N" help:"Processes and threads together (default 512)."`
	Disk        size     `env:"HORTUS_DISK" placeholder:"SIZE" help:"What can be written to its file system (default 512MiB)."`
	OutputLimit size     `name:"output-limit" env:"HORTUS_OUTPUT_LIMIT" placeholder:"SIZE" help:"Output of one command; more kills it (no default)."`
}

// limits turns the flags into the api's words.
func (f *limitFlags) limits() (api.Limits, error) {
	out := api.Limits{
		MemoryBytes: int64(f.Memory), CPUTimeMS: f.CPUTime.ms(),
		DiskBytes: int64(f.Disk), OutputBytes: int64(f.OutputLimit),
	}
	// Zero means the default to the api, so it is refused here.
	if f.CPUs != nil {
		if out.CPUs = *f.CPUs; !(*f.CPUs > 0) || *f.CPUs > 1<<16 {
			return out, api.Errorf(api.KindInvalid, "--cpus: %v is not a number of processors", *f.CPUs).WithHint("for example --cpus 0.5")
		}
	}
	if f.Pids != nil {
		if out.Processes = *f.Pids; *f.Pids < 1 {
			return out, api.Errorf(api.KindInvalid, "--pids: %d is not above 0", *f.Pids)
		}
	}
	return out, nil
}

// request turns the flags into the api's words.
func (f *boxFlags) request() (api.CreateSandbox, error) {
	out := api.CreateSandbox{Isolation: f.Isolation, Template: f.Template, TTLMS: f.TTL.ms()}
	var err error
	if out.Limits, err = f.limits(); err != nil {
		return out, err
	}
	if err := f.TTL.checkTTL(); err != nil {
		return out, err
	}
	if out.Env, err = assignments("--env", f.Env); err != nil {
		return out, err
	}
	out.Labels, err = assignments("--label", f.Label)
	return out, err
}

// checkTTL refuses what no sandbox may live for.
func (d duration) checkTTL() error {
	if d.ms() > api.MaxTTL.Milliseconds() {
		return api.Errorf(api.KindInvalid, "--ttl: the most is %s", showDuration(api.MaxTTL))
	}
	return nil
}

// commandFlags say how a command runs.
type commandFlags struct {
	User        string   `short:"u" enum:"user,root," default:"" placeholder:"NAME" help:"Identity inside: user or root."`
	Workdir     string   `short:"w" placeholder:"DIR" help:"Directory inside to run it in."`
	Timeout     duration `placeholder:"DURATION" help:"Kill it after that long, such as 30s (no default)."`
	Interactive bool     `short:"i" help:"Give it this stdin."`
	TTY         bool     `name:"tty" short:"t" help:"Give it a terminal."`
}

// taskFlags say how a task works.
type taskFlags struct {
	Timeout        duration `env:"HORTUS_TIMEOUT" placeholder:"DURATION" help:"How long the program may run (default 30s)."`
	InstallTimeout duration `name:"install-timeout" env:"HORTUS_INSTALL_TIMEOUT" placeholder:"DURATION" help:"How long installing and compiling may take (default 2m)."`
	Out            string   `name:"out" complete:"dirs" placeholder:"DIR" help:"Write the verified program's files there."`
	Detach         bool     `short:"d" help:"Start it, print its id and return; hortus task watch ID follows it."`
	Keep           bool     `help:"Leave the last attempt's sandbox alive until its time is up."`
}

// modelFlag names the models.
type modelFlag struct {
	Model modelNames `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model that plans and writes: offline (no network), anthropic, openai, anthropic:MODEL, openai:MODEL, or replay:FILE for the answers of a recording. planner=NAME,coder=NAME,debugger=NAME,large=NAME names one for each role."`
}
