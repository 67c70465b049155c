package build

import (
	"strings"

	"hortus.dev/api"
)

// Request is a template to build.
type Request struct {
	// Name is NAME or NAME:TAG. Tags are more tags of it.
	Name string
	Tags []string
	// Stages are built in order, as far as the last one needs them. The last one is the template.
	Stages []Stage
	// Notes are lines at the beginning of the log.
	Notes []string
	// Start is a shell command that runs in each sandbox of the template, and Ready one that
	// succeeds when it is ready. Both may be empty.
	Start, Ready string
	// Shell runs RUN, Start and Ready; the command is added to it.
	Shell []string
	// Dir is the directory of steps before the first WORKDIR; empty is that of the sandbox.
	Dir       string
	Isolation string
	Limits    api.Limits
	// Egress is what the steps may connect to; nil is nothing.
	Egress *api.EgressPolicy
	// PrivateTraffic has the ports of the template's sandboxes private.
	PrivateTraffic bool
	// IDEPort is the port at which the template's sandboxes have an editor; 0 is none.
	IDEPort int
	// NoCache runs every step.
	NoCache bool
}

// Stage is a list of steps in a sandbox of its own.
type Stage struct {
	Name string
	// From is a template, an image, or an earlier stage.
	From  string
	Steps []Step
	Line  int // of a Dockerfile, or 0
}

// Op is what a step does.
type Op string

const (
	OpEnv     Op = "ENV"     // Args are names and values
	OpArg     Op = "ARG"     // Args are a name and a value: a variable of later steps of the stage only
	OpRun     Op = "RUN"     // Args is one shell command, or with Exec a command
	OpCopy    Op = "COPY"    // Args are sources, and last the destination
	OpWorkdir Op = "WORKDIR" // Args is a directory, which is made if it is missing
	OpUser    Op = "USER"    // Args is a user of sandboxes
	OpShell   Op = "SHELL"   // Args are the new Request.Shell
	// Args, as those of a RUN, are the entrypoint and what follows it in the command that sandbox run runs without a
	// command. A new entrypoint removes the command of what the stage starts from.
	OpEntrypoint Op = "ENTRYPOINT"
	OpCommand    Op = "CMD"
)

// Step is one step.
type Step struct {
	Op   Op
	Args []string
	Exec bool
	// Expand replaces variables in Args, and removes quotes, as Dockerfiles do.
	Expand bool
	// Files names the upload that a COPY reads, From the stage or template instead.
	Files, From string
	// User owns the copied files, or runs the command; empty is the current user. Mode replaces permissions.
	User string
	Mode *uint32
	// Here are files that a COPY writes beside those that it names, and Unpack unpacks archives among these.
	Here   []Here
	Unpack bool
	// Secrets are what a RUN may use. They are the caller's choice: the engine grants what is here.
	Secrets []Secret
	// Force runs this and all later steps.
	Force bool
	// Text is the step as its author wrote it, and Line where.
	Text string
	Line int
}

// Here is a file whose contents are in the step itself.
type Here struct {
	Name, Text string
	// Expand replaces variables in the text; quotes stay.
	Expand bool
}

// Secret is a secret of the account that one RUN may use. It has a placeholder in a file or a variable.
type Secret struct {
	Name string
	// Path is the file, and Env the variable; either may be empty. Mode are the permissions of the file, which belongs
	// to the user of the step.
	Path, Env string
	Mode      uint32
}

// maxSteps bounds the steps of a build.
const maxSteps = 1000

func (r *Request) check() error {
	steps := 0
	for _, s := range r.Stages {
		steps += len(s.Steps)
	}
	switch {
	case len(r.Stages) == 0:
		return api.Errorf(api.KindInvalid, "the build has no stage")
	case steps > maxSteps:
		return api.Errorf(api.KindInvalid, "the build has %d steps; the maximum is %d", steps, maxSteps)
	case r.Ready != "" && r.Start == "":
		return api.Errorf(api.KindInvalid, "a ready command needs a start command")
	case len(r.Start) > api.MaxOnRestore/4 || len(r.Ready) > api.MaxOnRestore/4:
		return api.Errorf(api.KindInvalid, "the start or ready command has more than %d bytes", api.MaxOnRestore/4).WithHint("write it to a file of the template, and run that")
	}
	if err := api.CheckIDEPort(r.IDEPort); err != nil {
		return err
	}
	if len(r.Shell) == 0 {
		r.Shell = []string{"/bin/sh", "-c"}
	}
	return nil
}

// Line is a line of the log of a build.
type Line struct {
	// Step is the index of the step in the last stage; -1 for others.
	Step int
	// Text has one line of output if Output is set, else it says what is done.
	Text   string
	Output bool
}

// Expand replaces $NAME, ${NAME}, ${NAME:-default} and ${NAME:+value} in a word, and removes quotes
// and backslashes as a shell does. Text in single quotes is left as it is.
func Expand(word string, lookup func(name string) (string, error)) (string, error) {
	return expand(word, lookup, true)
}

// expand is Expand. Without quotes it is for text, where only variables and backslashes before "$" and "\" are special.
func expand(word string, lookup func(name string) (string, error), quotes bool) (string, error) {
	var b strings.Builder
	for i, double := 0, !quotes; i < len(word); i++ {
		switch c := word[i]; {
		case c == '"' && !quotes:
			b.WriteByte(c)
		case c == '\\' && i+1 < len(word):
			i++
			if double && !strings.ContainsRune("\"$\\", rune(word[i])) || !quotes && word[i] == '"' {
				b.WriteByte('\\')
			}
			b.WriteByte(word[i])
		case c == '"':
			double = !double
		case c == '\'' && !double:
			end := strings.IndexByte(word[i+1:], '\'')
			if end < 0 {
				return "", api.Errorf(api.KindInvalid, "%.100q has an unfinished quote", word)
			}
			b.WriteString(word[i+1 : i+1+end])
			i += end + 1
		case c == '$' && i+1 < len(word):
			value, n, err := variable(word[i+1:], lookup)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			i += n
		default:
			b.WriteByte(c)
		}
		if b.Len() > maxExpanded {
			return "", api.Errorf(api.KindInvalid, "%.100q has more than %d bytes after its variables are replaced", word, maxExpanded)
		}
	}
	return b.String(), nil
}

// maxExpanded bounds a word, in bytes.
const maxExpanded = 64 << 10

// variable reads what follows a "$", and returns its value and its length.
func variable(s string, lookup func(string) (string, error)) (string, int, error) {
	name := func(s string) int {
		n := 0
		for n < len(s) && (s[n] == '_' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
			n++
		}
		return n
	}
	if s[0] != '{' {
		n := name(s)
		if n == 0 {
			return "$", 0, nil
		}
		v, err := lookup(s[:n])
		return v, n, err
	}
	end := strings.IndexByte(s, '}')
	n := name(s[1:])
	if end < 0 || n == 0 {
		return "", 0, api.Errorf(api.KindInvalid, "%.100q is not a variable", "$"+s)
	}
	v, err := lookup(s[1 : 1+n])
	switch rest := s[1+n : end]; {
	case err != nil || rest == "":
	case strings.HasPrefix(rest, ":-"):
		if v == "" {
			v, err = Expand(rest[2:], lookup)
		}
	case strings.HasPrefix(rest, ":+"):
		if v != "" {
			v, err = Expand(rest[2:], lookup)
		}
	default:
		err = api.Errorf(api.KindInvalid, "%.100q is not a supported variable", "$"+s[:end+1]).WithHint("use $NAME, ${NAME}, ${NAME:-default} or ${NAME:+value}")
	}
	return v, end + 1, err
}
