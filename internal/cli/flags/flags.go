package flags

import (
	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/egress/policy"
)

// Sandbox say what a sandbox is to be.
type Sandbox struct {
	Backend
	Template string   `env:"HORTUS_TEMPLATE" complete:"templates" placeholder:"NAME" help:"Template: host (this machine's own tools), the name of a template, or the ID of a snapshot or an image."`
	Image    string   `env:"HORTUS_IMAGE" complete:"images" placeholder:"REF" help:"Container image to start from instead of a template: a reference such as python:3.12, or the path of a docker save archive or an OCI layout; docs/images.md."`
	Pull     bool     `help:"Read the image of --image again, even if the daemon has it."`
	TTL      Duration `name:"ttl" env:"HORTUS_TTL" placeholder:"DURATION" help:"Time to live of the sandbox (default 5m)."`
	Bounds
	Egress []string `sep:"none" env:"HORTUS_EGRESS" placeholder:"VALUE" help:"What the sandbox may connect to: none (default), a preset (npm, pip, go, apt, registries, git, models), a host such as example.org or *.example.org:8080, or ask. Repeatable; docs/egress.md."`
	Secret []string `sep:"none" complete:"secrets" placeholder:"[VAR=]NAME[@TIME]" help:"Secret that the sandbox may use and never sees (hortus secret ls): the variable VAR, or NAME in upper case, has a placeholder for it. With TIME, such as 30m, for that long. Repeatable; docs/secrets.md."`
	Env    []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Environment variable of every command in the sandbox. Repeatable."`
	Header []string `sep:"none" placeholder:"HOST NAME: VALUE" help:"Header of the sandbox's HTTPS requests to HOST, a name or *.NAME with a port if it is not 443. \"$${secret:NAME}\" in VALUE is a secret that the sandbox never sees (hortus secret set --for-headers). Repeatable; docs/secrets.md."`
	Label  []string `short:"l" sep:"none" placeholder:"NAME=VALUE" help:"Label of the sandbox. Repeatable."`
}

// Workspace names a workspace.
type Workspace struct {
	Name string `name:"workspace" complete:"workspaces" placeholder:"ID|NAME" help:"Workspace to mount at /workspace: files that outlive the sandbox. One sandbox at a time can use it; docs/workspaces.md."`
}

// Backend names a backend.
type Backend struct {
	Isolation string `env:"HORTUS_ISOLATION" placeholder:"NAME" help:"Isolation backend: auto (the strongest that works here), gvisor (a kernel of its own), container (the host's kernel, restricted), or process (no isolation; for trusted code only)."`
}

// Bounds bound a sandbox.
type Bounds struct {
	Memory      Size     `env:"HORTUS_MEMORY" placeholder:"SIZE" help:"Memory limit of all processes together, with a unit: K, M or G (default 1GiB)."`
	CPUs        *float64 `name:"cpus" env:"HORTUS_CPUS" placeholder:"N" help:"Processor limit; 0.5 is half a processor (default 1)."`
	CPUTime     Duration `name:"cpu-time" env:"HORTUS_CPU_TIME" placeholder:"DURATION" help:"Limit of the total processor time of all processes (default: none)."`
	Pids        *int64   `env:"HORTUS_PIDS" placeholder:"N" help:"Maximum number of processes and threads (default 512)."`
	Disk        Size     `env:"HORTUS_DISK" placeholder:"SIZE" help:"Disk limit: maximum size of all written files (default 512MiB)."`
	OutputLimit Size     `name:"output-limit" env:"HORTUS_OUTPUT_LIMIT" placeholder:"SIZE" help:"Output limit of one command; a command that exceeds it is killed (default: none)."`
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

// CreateRequest turns the flags into the api's words. Image and Pull are for package image.
func (f *Sandbox) CreateRequest() (api.CreateSandbox, error) {
	out := api.CreateSandbox{Isolation: f.Isolation, Template: f.Template, TTLMS: f.TTL.Milliseconds()}
	var err error
	if out.Limits, err = f.Limits(); err != nil {
		return out, err
	}
	if err := f.TTL.CheckTTL(); err != nil {
		return out, err
	}
	if out.Egress, err = Policy("--egress", f.Egress); err != nil {
		return out, err
	}
	if out.Secrets, err = Secrets("--secret", f.Secret); err != nil {
		return out, err
	}
	if out.Headers, err = Headers("--header", f.Header); err != nil {
		return out, err
	}
	if out.Env, err = Assignments("--env", f.Env); err != nil {
		return out, err
	}
	out.Labels, err = Assignments("--label", f.Label)
	return out, err
}

// Policy reads the values of a flag as an egress policy; nil if there are none.
func Policy(flag string, values []string) (*api.EgressPolicy, error) {
	if len(values) == 0 {
		return nil, nil
	}
	p, err := policy.ParseAll(values)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err).WithHint("%s", api.HintOf(err))
	}
	return &p, nil
}

// CheckTTL refuses what no sandbox may live for.
func (d Duration) CheckTTL() error {
	if d.Milliseconds() > api.MaxTTL.Milliseconds() {
		return api.Errorf(api.KindInvalid, "--ttl: the maximum is %s", human.Duration(api.MaxTTL))
	}
	return nil
}
