package dependency

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"hortus.dev/api"
)

// RecipePath is where a repository describes its setup.
const RecipePath = ".hortus/setup.yaml"

// Bounds of a recipe.
const (
	maxRecipe   = 64 << 10 // bytes
	maxSteps    = 32
	maxServices = 8
	maxInputs   = 64
	maxRun      = 8 << 10 // bytes of a command
	maxName     = 64      // bytes
	maxRetries  = 5
	maxTimeout  = time.Hour
	maxNodes    = 2000

	defaultTimeout = 15 * time.Minute
	readyTimeout   = time.Minute
)

// ParseRecipe reads the recipe of a commit. What it does not say is detected: the variables with which tools find the
// result, the presets, and the files that decide. Errors are KindInvalid and name the line.
func ParseRecipe(t Tree) (Plan, error) {
	text := t.Read(RecipePath)
	found := Detect(t)
	plan := Plan{
		From: []string{RecipePath}, Recipe: true, Env: found.Env, Path: found.Path, Presets: found.Presets, inputs: found.inputs, tree: t.Digest,
		Code: []string{RecipePath + " has no inputs"},
	}
	r := &reader{tree: t, plan: &plan}
	if err := r.read(text); err != nil {
		return Plan{}, api.Errorf(api.KindInvalid, "%s: %w", RecipePath, err).WithHint("The format is in docs/dependencies.md.")
	}
	plan.inputs[RecipePath] = sha256.Sum256(text)
	return plan, nil
}

// reader reads the nodes of a recipe.
type reader struct {
	tree  Tree
	plan  *Plan
	nodes int
	// last are steps that run after those of the list: the warm-up, and the check of the result.
	last []Step
}

// at is an error with the line of a node.
func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
}

func (r *reader) read(text []byte) error {
	if len(text) > maxRecipe {
		return fmt.Errorf("it has more than %d bytes", maxRecipe)
	}
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	} else if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("it must have one document")
	}
	if len(doc.Content) != 1 {
		return errors.New("it is empty")
	}
	if err := r.plain(&doc); err != nil {
		return err
	}
	err := r.fields(doc.Content[0], map[string]func(*yaml.Node) error{
		"steps":    r.steps,
		"services": r.services,
		"warm-up":  func(n *yaml.Node) error { return r.extra(n, "warm-up", true) },
		"verify":   func(n *yaml.Node) error { return r.extra(n, "verify", false) },
		"egress":   r.egress,
		"inputs":   r.inputs,
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.last, func(a, b Step) int { return strings.Compare(b.Name, a.Name) }) // warm-up, verify
	r.plan.Steps = append(r.plan.Steps, r.last...)
	if r.plan.Empty() {
		return errors.New("it has no steps and no services")
	}
	return nil
}

// plain refuses what makes a small text large, or means something else than it looks like.
func (r *reader) plain(n *yaml.Node) error {
	if r.nodes++; r.nodes > maxNodes {
		return at(n, "it has more than %d values", maxNodes)
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return at(n, "anchors and aliases are not allowed")
	}
	for _, c := range n.Content {
		if err := r.plain(c); err != nil {
			return err
		}
	}
	return nil
}

// fields reads a mapping whose keys are known.
func (r *reader) fields(n *yaml.Node, known map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "expected names with values")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || read == nil:
			return at(key, "unknown field %.40q", key.Value)
		case seen[key.Value]:
			return at(key, "field %q appears twice", key.Value)
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			return err
		}
	}
	return nil
}

func list(n *yaml.Node, most int, what string, each func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return at(n, "%s must be a list", what)
	}
	if len(n.Content) > most {
		return at(n, "%d %s; the maximum is %d", len(n.Content), what, most)
	}
	for _, c := range n.Content {
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

func text(n *yaml.Node, what string, most int, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return at(n, "%s must be text", what)
	}
	v := strings.TrimSpace(n.Value)
	if v == "" || len(v) > most || strings.ContainsRune(v, 0) {
		return at(n, "%s is empty, has a NUL byte or more than %d bytes", what, most)
	}
	*to = v
	return nil
}

// name is a text in one line, which people see.
func name(n *yaml.Node, to *string) error {
	if err := text(n, "name", maxName, to); err != nil {
		return err
	}
	if strings.ContainsFunc(*to, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return at(n, "name has characters that cannot be printed")
	}
	return nil
}

func (r *reader) dir(n *yaml.Node, to *string) error {
	if err := text(n, "dir", 512, to); err != nil {
		return err
	}
	if !local(*to) {
		return at(n, "dir must be a directory of the repository")
	}
	*to = path.Clean(*to)
	return nil
}

// local reports whether a path is inside of the repository, but not its .git.
func local(p string) bool {
	c := path.Clean(p)
	return !path.IsAbs(p) && c != ".." && !strings.HasPrefix(c, "../") && c != ".git" && !strings.HasPrefix(c, ".git/") && !strings.ContainsFunc(p, unicode.IsControl)
}

func duration(n *yaml.Node, to *time.Duration) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return at(n, "timeout must be a duration such as 90s or 10m")
	}
	if d <= 0 || d > maxTimeout {
		return at(n, "timeout must be above 0 and at most %s", maxTimeout)
	}
	*to = d
	return nil
}

func (r *reader) steps(n *yaml.Node) error {
	return list(n, maxSteps, "steps", func(n *yaml.Node) error {
		s := Step{Dir: ".", Timeout: defaultTimeout}
		err := r.fields(n, map[string]func(*yaml.Node) error{
			"name":    func(n *yaml.Node) error { return name(n, &s.Name) },
			"run":     func(n *yaml.Node) error { return text(n, "run", maxRun, &s.Run) },
			"dir":     func(n *yaml.Node) error { return r.dir(n, &s.Dir) },
			"timeout": func(n *yaml.Node) error { return duration(n, &s.Timeout) },
			"retries": func(n *yaml.Node) error {
				v, err := strconv.Atoi(n.Value)
				if err != nil || v < 0 || v > maxRetries {
					return at(n, "retries must be a number from 0 to %d", maxRetries)
				}
				s.Retries = v
				return nil
			},
			"optional": func(n *yaml.Node) error {
				if n.Tag != "!!bool" || n.Decode(&s.Optional) != nil {
					return at(n, "optional must be true or false")
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
		if s.Run == "" {
			return at(n, "the step has no run")
		}
		if s.Name == "" {
			s.Name = short(s.Run)
		}
		r.plan.Steps = append(r.plan.Steps, s)
		return nil
	})
}

// short is a command as the name of its step.
func short(run string) string {
	line, rest, _ := strings.Cut(run, "\n")
	line = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, line)
	if len(line) > maxName || rest != "" {
		line = strings.ToValidUTF8(line[:min(len(line), maxName-3)], "") + "..."
	}
	return line
}

// extra is a step that is one command.
func (r *reader) extra(n *yaml.Node, name string, optional bool) error {
	s := Step{Name: name, Dir: ".", Timeout: defaultTimeout, Optional: optional, Offline: true}
	if err := text(n, name, maxRun, &s.Run); err != nil {
		return err
	}
	r.last = append(r.last, s)
	return nil
}

func (r *reader) services(n *yaml.Node) error {
	return list(n, maxServices, "services", func(n *yaml.Node) error {
		s := Service{Dir: ".", Timeout: readyTimeout}
		err := r.fields(n, map[string]func(*yaml.Node) error{
			"name":    func(n *yaml.Node) error { return name(n, &s.Name) },
			"run":     func(n *yaml.Node) error { return text(n, "run", maxRun, &s.Run) },
			"dir":     func(n *yaml.Node) error { return r.dir(n, &s.Dir) },
			"ready":   func(n *yaml.Node) error { return text(n, "ready", maxRun, &s.Ready) },
			"timeout": func(n *yaml.Node) error { return duration(n, &s.Timeout) },
		})
		if err != nil {
			return err
		}
		if s.Run == "" || s.Name == "" {
			return at(n, "a service needs a name and a run")
		}
		r.plan.Services = append(r.plan.Services, s)
		return nil
	})
}

// isPreset reports whether a text looks like the name of a preset. Hosts and addresses do not: a repository asks for
// registries only.
func isPreset(v string) bool {
	return !strings.ContainsFunc(v, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' })
}

func (r *reader) egress(n *yaml.Node) error {
	r.plan.Presets = nil
	err := list(n, 16, "presets", func(n *yaml.Node) error {
		var v string
		if err := text(n, "a preset", 32, &v); err != nil {
			return err
		}
		if !isPreset(v) {
			return at(n, "%.40q is not the name of a preset, such as npm; hosts are allowed by the person who starts the task", v)
		}
		r.plan.Presets = append(r.plan.Presets, v)
		return nil
	})
	slices.Sort(r.plan.Presets)
	r.plan.Presets = slices.Compact(r.plan.Presets)
	return err
}

func (r *reader) inputs(n *yaml.Node) error {
	r.plan.inputs, r.plan.Code = map[string][sha256.Size]byte{}, nil
	return list(n, maxInputs, "inputs", func(n *yaml.Node) error {
		var p string
		if err := text(n, "an input", 1024, &p); err != nil {
			return err
		}
		if !local(p) || path.Clean(p) != p {
			return at(n, "an input must be a file of the repository")
		}
		if !r.tree.has(p) {
			return at(n, "the repository has no file %.200q", p)
		}
		r.plan.inputs[p] = sha256.Sum256(r.tree.Read(p))
		return nil
	})
}
