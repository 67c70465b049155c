package task

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/task/view"
)

// taskFlags say how a task works.
type taskFlags struct {
	Timeout        flags.Duration `env:"HORTUS_TIMEOUT" placeholder:"DURATION" help:"Timeout of the program (default 30s)."`
	InstallTimeout flags.Duration `name:"install-timeout" env:"HORTUS_INSTALL_TIMEOUT" placeholder:"DURATION" help:"Timeout of installing and compiling (default 2m)."`
	SetupEgress    []string       `name:"setup-egress" sep:"none" env:"HORTUS_SETUP_EGRESS" placeholder:"VALUE" help:"What the install command may connect to: the package registry of the program's language (default), none, or values of --egress. Repeatable; docs/egress.md."`
	Out            string         `name:"out" complete:"dirs" placeholder:"DIR" help:"Directory to write the verified program's files to."`
	Detach         bool           `short:"d" help:"Start the task, print its ID and return. hortus task watch ID follows it."`
	Keep           bool           `help:"Keep the last attempt's sandbox until its time to live ends."`
}

// modelFlag names the models.
type modelFlag struct {
	Model ModelNames `env:"HORTUS_MODEL" placeholder:"NAME" help:"Model: offline (built in, no network), anthropic, openai, anthropic:MODEL, openai:MODEL, ollama:MODEL, or replay:FILE (a recording). planner=NAME,coder=NAME,debugger=NAME,large=NAME sets a model for each role."`
}

// readInputs reads the files of --file: FILE, or NAME=FILE for another name in the
// program's directory. A file whose own name has an equals sign needs the second form.
func readInputs(flags []string) ([]api.InputFile, error) {
	var files []api.InputFile
	left := int64(api.MaxInputBytes)
	for _, flag := range flags {
		name, path, renamed := strings.Cut(flag, "=")
		if !renamed {
			path, name = flag, filepath.Base(flag)
		}
		content, err := readInput(path, left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(content))
		files = append(files, api.InputFile{Path: name, Content: content})
	}
	return files, nil
}

func readInput(path string, most int64) ([]byte, error) {
	bad := func(err error) ([]byte, error) {
		return nil, api.Errorf(api.KindInvalid, "--file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return bad(err)
	}
	if !info.Mode().IsRegular() {
		return nil, api.Errorf(api.KindInvalid, "--file: %s is not a regular file", path).
			WithHint("pass each file, or use a repository: hortus task --repo DIR")
	}
	f, err := os.Open(path)
	if err != nil {
		return bad(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return bad(err)
	}
	if int64(len(content)) > most {
		return nil, api.Errorf(api.KindInvalid, "--file: with %s the files have more than %d bytes", path, api.MaxInputBytes).
			WithHint("use a sandbox for more: hortus sandbox create, hortus sandbox cp FILE ID:/workspace/")
	}
	return content, nil
}

// maxSchema is the maximum size of a schema, in bytes; the daemon has the same.
const maxSchema = 64 << 10

// schemaFlag is the flag for a structured result.
type schemaFlag struct {
	Schema string `complete:"files" placeholder:"FILE" help:"JSON Schema for what the program prints to stdout. It is verified only if that is one valid JSON value."`
}

// resultFlag is that of a task on a repository.
type resultFlag struct {
	Schema string `complete:"files" placeholder:"FILE" help:"JSON Schema for a value that the agent returns with its work. The task is verified only with a valid value."`
}

func (r resultFlag) read() (json.RawMessage, error) { return schemaFlag(r).read() }

// read returns the schema; nil without the flag.
func (s schemaFlag) read() (json.RawMessage, error) {
	if s.Schema == "" {
		return nil, nil
	}
	f, err := os.Open(s.Schema)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "--schema: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSchema+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "--schema: %w", err)
	case len(raw) > maxSchema:
		return nil, api.Errorf(api.KindInvalid, "--schema: %s has more than %d bytes", s.Schema, maxSchema)
	case !json.Valid(raw):
		return nil, api.Errorf(api.KindInvalid, "--schema: %s is not JSON", s.Schema).
			WithHint(`a schema looks like this: {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}`)
	}
	return raw, nil
}

// ModelNames is what --model says: one model for all roles, others for some of
// them, or both: "NAME", "NAME,planner=NAME", "planner=NAME,coder=NAME".
type ModelNames struct {
	all string
	by  api.Models
}

// modelRoles are what a model can be named for, in the order of their work.
const modelRoles = "planner, coder, debugger, large"

// UnmarshalText reads the flag. Whether there is such a model the daemon says.
func (m *ModelNames) UnmarshalText(text []byte) error {
	*m = ModelNames{}
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		role, name, given := strings.Cut(part, "=")
		// A file's name may hold an equals sign; the name of a role is a word.
		if given && role == "" {
			return api.Errorf(api.KindInvalid, "%.200q has no role before the equals sign", text).WithHint("the roles are %s", modelRoles)
		}
		if !given || strings.Trim(role, "abcdefghijklmnopqrstuvwxyz") != "" {
			role, name = "", part
		}
		to, err := m.place(role)
		if err != nil {
			return err
		}
		if name = strings.TrimSpace(name); name == "" {
			return api.Errorf(api.KindInvalid, "%.200q has an empty name", text).WithHint("for example --model offline, or --model planner=NAME,coder=NAME")
		}
		if *to != "" {
			if role == "" {
				return api.Errorf(api.KindInvalid, "%.200q sets two models for all roles", text).
					WithHint("set a role before the equals sign (%s); file names of recordings cannot have a comma", modelRoles)
			}
			return api.Errorf(api.KindInvalid, "%.200q sets two models for the %s", text, role)
		}
		if *to, err = absoluteRecording(name); err != nil {
			return err
		}
	}
	return nil
}

// place is where the name of a role's model is kept.
func (m *ModelNames) place(role string) (*string, error) {
	switch role {
	case "planner":
		return &m.by.Planner, nil
	case "coder":
		return &m.by.Coder, nil
	case "debugger":
		return &m.by.Debugger, nil
	case "large":
		return &m.by.Large, nil
	case "":
		return &m.all, nil
	}
	return nil, api.Errorf(api.KindInvalid, "unknown role %.40q", role).WithHint("the roles are %s", modelRoles)
}

// absoluteRecording makes the path of a recording absolute: the daemon, which
// opens it, has another working directory.
func absoluteRecording(name string) (string, error) {
	path, ok := strings.CutPrefix(name, view.RecordingPrefix)
	if !ok {
		return name, nil
	}
	if path == "" {
		return "", api.Errorf(api.KindInvalid, "%q has no file", name).WithHint("use %sFILE", view.RecordingPrefix)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "%.200q: %w", name, err)
	}
	return view.RecordingPrefix + abs, nil
}

// of is the model of a role that works alone: the first name that was given for
// it, or that of all.
func (m ModelNames) of(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return m.all
}

// fileFlags say which files of the repository an agent may read and which it may change.
type fileFlags struct {
	OffLimits []string `name:"off-limits" sep:"none" placeholder:"GLOB" help:"Files that the agent cannot read, in addition to the default list (.env*, private keys). !GLOB excludes files from the list. Repeatable."`
	ReadOnly  []string `name:"read-only" sep:"none" placeholder:"GLOB" help:"Files that the agent can read but not change. Repeatable."`
	Writable  []string `name:"writable" sep:"none" placeholder:"GLOB" help:"The only files that the agent can change. Repeatable."`
}

// policy checks the flags.
func (f *fileFlags) policy() (api.FilePolicy, error) {
	p := api.FilePolicy{OffLimits: f.OffLimits, ReadOnly: f.ReadOnly, Writable: f.Writable}
	err := p.CheckBounds()
	if err == nil {
		err = p.Check()
	}
	return p, err
}

// bestFlags let several agents work on the same request.
type bestFlags struct {
	BestOf    *int     `name:"best-of" placeholder:"N" help:"Number of agents that work side by side on the same request (2 to 16). The best result is that of the task. --steps, --tokens and --cost are for all together. docs/best-of.md."`
	Search    string   `placeholder:"DEPTH,WIDTH" help:"Search: WIDTH agents (1 to 16) side by side, on up to DEPTH levels (1 to 6), at most 32 agents together. While none passes, the next level continues the best work so far. --search 1,N is --best-of N."`
	First     bool     `help:"With --best-of or --search: end the other agents as soon as one passes the gate."`
	Candidate []string `sep:"none" placeholder:"KEY=VALUE,..." help:"With --best-of or --search: how one agent differs: agent=NAME, model=NAME, temperature=T, and strategy=TEXT as the last one. Repeatable up to N or WIDTH times; the others differ by default."`
}

// request turns the flags into the api's words; nil if there is one agent.
func (f *bestFlags) request() (*api.BestOf, error) {
	r := &api.BestOf{First: f.First}
	name := "--best-of"
	switch {
	case f.BestOf != nil && f.Search != "":
		return nil, api.Errorf(api.KindInvalid, "--best-of and --search exclude each other").WithHint("use --search DEPTH,%d alone", *f.BestOf)
	case f.BestOf != nil:
		r.Of = *f.BestOf
	case f.Search != "":
		name = "--search"
		var err error
		if r.Depth, r.Of, err = depthWidth(f.Search); err != nil {
			return nil, err
		}
	default:
		for _, other := range []struct {
			given bool
			name  string
		}{{f.First, "--first"}, {len(f.Candidate) > 0, "--candidate"}} {
			if other.given {
				return nil, api.Errorf(api.KindInvalid, "%s has no effect without --best-of or --search", other.name).WithHint("add --best-of 3")
			}
		}
		return nil, nil
	}
	if why := r.Wrong(); why != "" {
		return nil, api.Errorf(api.KindInvalid, "%s: %s", name, why)
	}
	if len(f.Candidate) > r.Of {
		return nil, api.Errorf(api.KindInvalid, "--candidate is given %d times, and %s has %d side by side", len(f.Candidate), name, r.Of)
	}
	for _, text := range f.Candidate {
		v, err := variant(text)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "--candidate: %w", err).WithHint("for example --candidate 'model=anthropic,strategy=Write a failing test first.'")
		}
		r.Vary = append(r.Vary, v)
	}
	return r, nil
}

// depthWidth reads the value of --search.
func depthWidth(text string) (depth, width int, err error) {
	d, w, ok := strings.Cut(text, ",")
	if ok {
		depth, err = strconv.Atoi(strings.TrimSpace(d))
	}
	if ok && err == nil {
		width, err = strconv.Atoi(strings.TrimSpace(w))
	}
	if !ok || err != nil || depth < 1 {
		return 0, 0, api.Errorf(api.KindInvalid, "--search: %.40q is not DEPTH,WIDTH", text).WithHint("for example --search 3,4: up to 3 levels of 4 agents")
	}
	return depth, width, nil
}

// variant reads how a candidate differs: "agent=claude,model=anthropic", "temperature=0.7,strategy=any text, to the end".
func variant(text string) (v api.Variant, err error) {
	seen := map[string]bool{}
	for rest := text; ; {
		key, value, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		rest = ""
		if key != "strategy" {
			var more bool
			if value, rest, more = strings.Cut(value, ","); more && strings.TrimSpace(rest) == "" {
				return v, api.Errorf(api.KindInvalid, "%.200q ends with a comma", text)
			}
		}
		value = strings.TrimSpace(value)
		switch {
		case !ok || value == "":
			return v, api.Errorf(api.KindInvalid, "%.200q has %.40q without a value", text, key)
		case seen[key]:
			return v, api.Errorf(api.KindInvalid, "%.200q sets %s twice", text, key)
		}
		seen[key] = true
		switch key {
		case "agent":
			v.Agent = value
		case "model":
			v.Model = value
		case "strategy":
			v.Strategy = value
		case "temperature":
			t, err := strconv.ParseFloat(value, 64)
			if err != nil || !(t >= 0 && t <= 2) {
				return v, api.Errorf(api.KindInvalid, "the temperature %.40q is not a number from 0 to 2", value)
			}
			v.Temperature = &t
		default:
			return v, api.Errorf(api.KindInvalid, "unknown key %.40q; use agent, model, temperature or strategy", key)
		}
		if rest == "" {
			return v, nil
		}
	}
}

// modelsOf are the models that the candidates of a request name.
func modelsOf(r *api.RepoTask) (out []string) {
	if r == nil || r.Best == nil {
		return nil
	}
	for _, v := range r.Best.Vary {
		if v.Model != "" && v.Agent == "" {
			out = append(out, v.Model)
		}
	}
	return out
}
