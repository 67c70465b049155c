package flags

import (
	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// Sandbox say what a sandbox is to be.
type Sandbox struct {
	Backend
	Template string   `env:"HORTUS_TEMPLATE" complete:"templates" placeholder:"NAME" help:"What the sandbox starts from: host (this machine's own tools), a template of yours, or the id of a snapshot."`
	TTL      Duration `name:"ttl" env:"HORTUS_TTL" placeholder:"DURATION" help:"How long the sandbox lives at most (default 5m)."`
	Bounds
	Env   []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Variable for every command in it. Repeatable."`
	Label []string `short:"l" sep:"none" placeholder:"NAME=VALUE" help:"Label to find it by. Repeatable."`
}

// Backend names a backend.
type Backend struct {
	Isolation string `env:"HORTUS_ISOLATION" placeholder:"NAME" help:"Backend: auto (the strongest here), gvisor (a kernel of its own), container (this kernel, walled), or process (no isolation; for code that you trust)."`
}

// Bounds bound a sandbox.
type Bounds struct {
	Memory      Size     `env:"HORTUS_MEMORY" placeholder:"SIZE" help:"Memory of all its processes together, such as 512M (default 1GiB)."`
	CPUs        *float64 `name:"cpus" env:"HORTUS_CPUS" placeholder:"N" help:"Share of processor time, in processors; 0.5 is half of one (default 1)."`
	CPUTime     Duration `name:"cpu-time" env:"HORTUS_CPU_TIME" placeholder:"DURATION" help:"Total processor time of all its processes (no default)."`
	Pids        *int64   `env:"HORTUS_PIDS" placeholder:"N" help:"Processes and threads together (default 512)."`
	Disk        Size     `env:"HORTUS_DISK" placeholder:"SIZE" help:"What can be written to its file system (default 512MiB)."`
	OutputLimit Size     `name:"output-limit" env:"HORTUS_OUTPUT_LIMIT" placeholder:"SIZE" help:"Output of one command; more kills it (no default)."`
}

// Limits turns the flags into the api's words.
func (f *Bounds) Limits() (api.Limits, error) {
	out := api.Limits{
		MemoryBytes: int64(f.Memory), CPUTimeMS: f.CPUTime.Milliseconds(),
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

// CreateRequest turns the flags into the api's words.
func (f *Sandbox) CreateRequest() (api.CreateSandbox, error) {
	out := api.CreateSandbox{Isolation: f.Isolation, Template: f.Template, TTLMS: f.TTL.Milliseconds()}
	var err error
	if out.Limits, err = f.Limits(); err != nil {
		return out, err
	}
	if err := f.TTL.CheckTTL(); err != nil {
		return out, err
	}
	if out.Env, err = Assignments("--env", f.Env); err != nil {
		return out, err
	}
	out.Labels, err = Assignments("--label", f.Label)
	return out, err
}

// CheckTTL refuses what no sandbox may live for.
func (d Duration) CheckTTL() error {
	if d.Milliseconds() > api.MaxTTL.Milliseconds() {
		return api.Errorf(api.KindInvalid, "--ttl: the most is %s", human.Duration(api.MaxTTL))
	}
	return nil
}
