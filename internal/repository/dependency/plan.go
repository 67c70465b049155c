package dependency

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
)

// Workspace is where a sandbox has the repository, and Cache the directory in it for what lies outside of the
// tree, such as the module cache of Go. Git ignores it, and so does what reads a workspace.
const (
	Workspace = "/workspace"
	Cache     = Workspace + "/.git/hortus"
)

// MaxFile is the most that Read gives of one file, in bytes. A lock file of a large project has some megabytes.
const MaxFile = 32 << 20

// Tree is a commit.
type Tree struct {
	// Paths are its regular files, sorted. Links are not among them.
	Paths []string
	// Read returns at most [MaxFile] bytes of one; nil if it cannot be read.
	Read func(path string) []byte
	// Digest names the commit's tree: all its files with their modes and contents.
	Digest string
	// GoTests are the runs of go test that decide about the commit, with nothing but what changes a build: "go test -race". They are
	// given to a shell. Without any, it is "go test".
	GoTests []string
}

func (t Tree) has(p string) bool {
	_, ok := slices.BinarySearch(t.Paths, p)
	return ok
}

// Step is one command of a setup.
type Step struct {
	// Name is for people, such as "npm ci in web".
	Name string
	// Run is a command for sh -c, in Dir, which is relative to the repository, "." for its top.
	Run, Dir string
	Timeout  time.Duration
	// Retries is how often a failed command runs again.
	Retries int
	// Needs are programs that the sandbox must have. A step without them is left out.
	Needs []string
	// Optional is true if the result is of use although the step failed.
	Optional bool
	// Offline is true if the step needs no connection.
	Offline bool
	// Results are directories that have the result: relative to the repository, or below [Cache].
	Results []string
}

// Language returns the language whose packages a step installs; empty if that is not known.
func (s Step) Language() api.Language {
	for _, program := range s.Needs {
		switch program {
		case "npm":
			return api.JavaScript
		case "python3":
			return api.Python
		case "go":
			return api.Go
		case "cargo":
			return api.Rust
		case "bundle":
			return api.Ruby
		case "mvn":
			return api.Java
		case "composer":
			return api.PHP
		}
	}
	return ""
}

// Service is a program that runs beside the steps, the agent and the gate.
type Service struct {
	Name, Run, Dir string
	// Ready is a command that succeeds when the service can be used; empty if there is nothing to wait for.
	Ready   string
	Timeout time.Duration // of Ready
}

// Plan is the setup of a commit.
type Plan struct {
	// From names the files that the plan is made of, for people.
	From []string
	// Recipe is true if the repository describes its setup itself.
	Recipe   bool
	Steps    []Step
	Services []Service
	// Presets are the egress presets that the steps ask for, sorted. What they get is not decided here.
	Presets []string
	// Env are variables of the steps, the agent and the gate, with which tools find the result.
	Env map[string]string
	// Path are directories of programs, which come before those of the sandbox's PATH. They are below [Cache]: no
	// commit has files there, so that none of its files is mistaken for a program.
	Path []string
	// Notes say what was left out, in sentences, and Warnings what else there is to know.
	Notes, Warnings []string

	// Code says which code of the repository the steps run, for people; empty if they run none, or if
	// the repository names the files that decide. The result is of one tree only: what a commit's code
	// installed must not be there for a commit that took the code away.
	Code []string

	// inputs are the contents that decide what is installed, by path.
	inputs map[string][sha256.Size]byte
	tree   string // the Digest of the tree, part of the key if the steps run its code
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Steps) == 0 && len(p.Services) == 0 }

// Sources is the part of Env that is true although nothing is installed: where Python finds the packages of the repository itself, in the
// layout src.
func (p Plan) Sources() map[string]string {
	var own []string
	for dir := range strings.SplitSeq(p.Env["PYTHONPATH"], ":") {
		if strings.HasPrefix(dir, Workspace+"/") && !strings.HasPrefix(dir, Cache+"/") {
			own = append(own, dir)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return map[string]string{"PYTHONPATH": strings.Join(own, ":")}
}

// python is where pip installs, and venv the packages of a virtual environment.
const (
	python = Cache + "/python"
	venv   = Cache + "/venv"
)

// In returns the plan of a repository that is in a directory of the workspace, one of several. dir is one name.
func (p Plan) In(dir string) Plan {
	at := func(p string) string {
		if strings.HasPrefix(p, "/") {
			return p
		}
		return path.Join(dir, p)
	}
	// Two repositories may need different versions of a package, or of a package manager.
	own := strings.NewReplacer(python, python+"/"+dir, nodeTools, nodeTools+"/"+dir, venv, venv+"/"+dir)
	out := p
	out.From, out.Steps, out.Services, out.Notes, out.Warnings, out.Code, out.Path = nil, nil, nil, nil, nil, nil, nil
	out.Env, out.inputs = map[string]string{}, map[string][sha256.Size]byte{}
	for _, f := range p.From {
		out.From = append(out.From, at(f))
	}
	for _, s := range p.Steps {
		s.Name = strings.TrimSuffix(s.Name, " in "+s.Dir)
		s.Dir = at(s.Dir)
		s.Name += " in " + s.Dir
		s.Run = own.Replace(s.Run)
		s.Results = slices.Clone(s.Results)
		for i, r := range s.Results {
			s.Results[i] = own.Replace(at(r))
		}
		out.Steps = append(out.Steps, s)
	}
	for _, s := range p.Services {
		s.Name, s.Dir = s.Name+" of "+dir, at(s.Dir)
		out.Services = append(out.Services, s)
	}
	for _, n := range p.Notes {
		out.Notes = append(out.Notes, dir+": "+n)
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, dir+": "+w)
	}
	for _, d := range p.Path {
		out.Path = append(out.Path, own.Replace(d))
	}
	for _, c := range p.Code {
		out.Code = append(out.Code, dir+": "+c)
	}
	for name, value := range p.Env {
		list := strings.Split(value, ":")
		for i, v := range list {
			if rest, ok := strings.CutPrefix(v, Workspace+"/"); ok && !strings.HasPrefix(v, Cache+"/") {
				list[i] = path.Join(Workspace, dir, rest) // a directory of the repository
			}
		}
		out.Env[name] = own.Replace(strings.Join(list, ":"))
	}
	for name, sum := range p.inputs {
		out.inputs[at(name)] = sum
	}
	return out
}

// keyVersion changes when the same plan would give another result.
const keyVersion = "setup 2"

// Key names the result of the steps: 64 hexadecimal digits, or twice as many with a hyphen between them. zone is the account whose result it is: no other has
// the same key. Neither has another branch. If a step runs code of the repository, the whole tree is part of the key,
// unless a recipe names the files that decide.
// toolchain names the programs of the sandbox with their versions.
func (p Plan) Key(zone, repository, branch, toolchain string) string {
	sum := sha256.New()
	repo := sha256.Sum256([]byte(repository + " " + branch))
	fmt.Fprintf(sum, "%s\n%q\n%x\n%q\n", keyVersion, zone, repo, toolchain)
	for _, name := range slices.Sorted(maps.Keys(p.inputs)) {
		fmt.Fprintf(sum, "file %q %x\n", name, p.inputs[name])
	}
	for _, s := range p.Steps {
		fmt.Fprintf(sum, "step %q %q %q %t\n", s.Name, s.Run, s.Dir, s.Optional)
	}
	for _, s := range p.Services {
		fmt.Fprintf(sum, "service %q %q %q\n", s.Run, s.Dir, s.Ready)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		fmt.Fprintf(sum, "env %q %q\n", name, p.Env[name])
	}
	for _, dir := range p.Path {
		fmt.Fprintf(sum, "path %q\n", dir)
	}
	key := hex.EncodeToString(sum.Sum(nil))
	if len(p.Code) > 0 {
		tree := sha256.Sum256([]byte(p.tree))
		key += "-" + hex.EncodeToString(tree[:])
	}
	return key
}

// SameInputs reports whether two keys differ in the tree only: changed code that the steps may run, but not what they are.
func SameInputs(a, b string) bool {
	a, _, _ = strings.Cut(a, "-")
	b, _, _ = strings.Cut(b, "-")
	return a == b
}

// Of returns the setup of a commit: that of its recipe, or what its lock files say. The error is KindInvalid for
// a recipe that cannot be read.
func Of(t Tree) (Plan, error) {
	if t.has(RecipePath) {
		return ParseRecipe(t)
	}
	return Detect(t), nil
}
