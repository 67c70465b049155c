package flags

import (
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/platform/config"
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
	Isolation string `env:"HORTUS_ISOLATION" placeholder:"NAME" help:"Isolation backend: auto (the strongest that works here), gvisor (a kernel of its own), container (the host's kernel, restricted), docker (a container of a Docker engine), microvm (a virtual machine), wasm (JavaScript, Python and WASI modules without a system; no shell), process (no isolation; for trusted code only), e2b or daytona (at a service), or kubernetes (a pod of a cluster)."`
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

// Headers turns values such as "api.example.org X-Key: VALUE" into header rules, one for each host and
// port, in the order of their first values.
func Headers(flag string, values []string) (out []api.HeaderRule, err error) {
	at := map[string]int{}
	for _, v := range values {
		r, name, value, err := header(v)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err).WithHint("for example %s 'api.example.org Authorization: Bearer ${secret:NAME}'", flag)
		}
		key := r.Host + ":" + strconv.Itoa(r.Port)
		i, known := at[key]
		if !known {
			i, at[key] = len(out), len(out)
			r.Headers = map[string]string{}
			out = append(out, r)
		}
		if _, twice := out[i].Headers[name]; twice {
			return nil, api.Errorf(api.KindInvalid, "%s: the header %.80q for %s is there twice", flag, name, key)
		}
		out[i].Headers[name] = value
	}
	if err := secrets.CheckHeaders(out); err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err).WithHint("%s", api.HintOf(err))
	}
	return out, nil
}

// header reads one value. The value of the header is not in its errors.
func header(text string) (r api.HeaderRule, name, value string, err error) {
	host, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
	name, value, colon := strings.Cut(strings.TrimSpace(rest), ":")
	if !ok || !colon || name == "" {
		return r, "", "", api.Errorf(api.KindInvalid, "a value has the form HOST NAME: VALUE")
	}
	host = strings.TrimPrefix(host, "https://")
	if strings.HasPrefix(host, "http://") {
		return r, "", "", api.Errorf(api.KindInvalid, "headers are set in HTTPS requests only")
	}
	host, port, ok := strings.Cut(host, ":")
	if ok {
		if r.Port, err = strconv.Atoi(port); err != nil {
			return r, "", "", api.Errorf(api.KindInvalid, "%.20q is not a port", port)
		}
	}
	r.Host = host
	return secrets.HeaderDefaults(r), name, strings.TrimSpace(value), nil
}

// Secrets turns [VAR=]NAME[@TIME] into grants.
func Secrets(flag string, values []string) (out []api.SecretGrant, err error) {
	for _, v := range values {
		var g api.SecretGrant
		var limited bool
		var lifetime string
		if variable, rest, ok := strings.Cut(v, "="); ok {
			g.Env, v = variable, rest
		}
		g.Name, lifetime, limited = strings.Cut(v, "@")
		if !api.ValidSecretName(g.Name) {
			return nil, api.Errorf(api.KindInvalid, "%s: %.80q is not the name of a secret", flag, g.Name).WithHint("list them: hortus secret ls")
		}
		if limited {
			var d Duration
			if err := d.UnmarshalText([]byte(lifetime)); err != nil || d.Milliseconds() == 0 {
				return nil, api.Errorf(api.KindInvalid, "%s: %.40q is not how long the secret %s may be used", flag, lifetime, g.Name).
					WithHint("write for example %s@30m or %s@2h", g.Name, g.Name)
			}
			g.LifetimeMS = d.Milliseconds()
		}
		out = append(out, g)
	}
	if err := api.CheckSecretGrants(out); err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err)
	}
	return out, nil
}

// Span is a length of time that may count days and weeks: "7d", "2w", "36h".
type Span time.Duration

// longestSpan is a hundred years; more would overflow.
const longestSpan = 100 * 365 * 24 * time.Hour

// UnmarshalText reads a span above 0.
func (s *Span) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	days := map[string]float64{"d": 1, "w": 7}
	if n := len(t); n > 0 && days[t[n-1:]] > 0 {
		f, err := strconv.ParseFloat(t[:n-1], 64)
		if err == nil && f*days[t[n-1:]]*24 <= longestSpan.Hours() && f > 0 {
			*s = Span(f * days[t[n-1:]] * 24 * float64(time.Hour))
			return nil
		}
	} else if d, err := time.ParseDuration(t); err == nil && d > 0 && d <= longestSpan {
		*s = Span(d)
		return nil
	}
	return api.Errorf(api.KindInvalid, "%.40q is not a duration", text).WithHint("use for example 12h, 7d or 4w")
}

// Age is a duration that may be 0.
type Age time.Duration

// UnmarshalText reads a duration or 0.
func (d *Age) UnmarshalText(text []byte) error {
	if s := string(text); s == "0" || s == "0s" || s == "0d" {
		*d = 0
		return nil
	}
	v, err := config.ParseDuration(string(text))
	*d = Age(v)
	return err
}

// Size is a number of bytes as people write it: "512M", "1GiB", "65536". Units
// are powers of 1024; the "i" and the "B" may be left out.
type Size int64

// UnmarshalText reads a size above 0.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := config.ParseSize(string(text))
	*s = Size(n)
	return err
}

// Duration is a length of time as people write it: "30s", "5m", "1h30m".
type Duration time.Duration

// UnmarshalText reads a duration of at least a millisecond.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := config.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Milliseconds is the duration as the API takes it.
func (d Duration) Milliseconds() int64 { return time.Duration(d).Milliseconds() }

// Assignments reads repeated K=V flags.
func Assignments(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(list))
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		switch {
		case k == "" || strings.ContainsRune(s, 0):
			return nil, api.Errorf(api.KindInvalid, "%s: %.40q has no name", flag, s).WithHint("use NAME=VALUE")
		case !ok:
			return nil, api.Errorf(api.KindInvalid, "%s: %.40q has no value", flag, s).
				WithHint("write %s %.40s=VALUE; values are never taken from your environment, so that no secret enters a sandbox by accident", flag, k)
		}
		out[k] = v
	}
	return out, nil
}
