package buildyaml

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/sandbox/build"
)

// MaxBytes is the maximum size of a hortus.yaml.
const MaxBytes = 256 << 10

// file is what a hortus.yaml says.
type file struct {
	From, Start, Ready string
	Env                map[string]string
	Workdir, User      string
	Copy, Run, Command []string
	Limits             struct {
		Memory, Disk string
		CPUs         float64
		Processes    int64
	}
}

// plain removes what the decoder says of itself and of the type above.
var plain = regexp.MustCompile(`^yaml: (unmarshal errors:\n\s*)?| in type \S+`)

// Parse reads a hortus.yaml whose copy reads the upload files. The request has its stage, start, ready and limits.
func Parse(text, files string) (build.Request, error) {
	r, err := parse(text, files)
	if err != nil {
		return build.Request{}, api.Errorf(api.KindInvalid, "hortus.yaml: %s", plain.ReplaceAllString(err.Error(), ""))
	}
	return r, nil
}

func parse(text, files string) (out build.Request, err error) {
	if len(text) > MaxBytes {
		return out, fmt.Errorf("it has %d bytes; the maximum is %d", len(text), MaxBytes)
	}
	var f file
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return out, err
	}
	if err := dec.Decode(new(file)); !errors.Is(err, io.EOF) {
		return out, errors.New("it has more than one document")
	}
	if f.From == "" {
		return out, errors.New("it has no from")
	}
	out = build.Request{Start: f.Start, Ready: f.Ready, Limits: api.Limits{CPUs: f.Limits.CPUs, Processes: f.Limits.Processes}}
	for text, to := range map[string]*int64{f.Limits.Memory: &out.Limits.MemoryBytes, f.Limits.Disk: &out.Limits.DiskBytes} {
		if text == "" {
			continue
		}
		if *to, err = config.ParseSize(text); err != nil {
			return out, err
		}
	}
	var doc yaml.Node // the same, with the order and the lines
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return out, err
	}
	stage := build.Stage{From: f.From}
	add := func(n *yaml.Node, key, text string, s build.Step) {
		s.Line, s.Text = n.Line, key+": "+strings.Join(strings.Fields(text), " ")
		stage.Steps = append(stage.Steps, s)
	}
	root := doc.Content[0].Content
	for i := 0; i+1 < len(root); i += 2 {
		key, n := root[i].Value, root[i+1]
		if n.Kind == yaml.AliasNode || key == "<<" || key == "env" && slices.ContainsFunc(n.Content, func(n *yaml.Node) bool { return n.Value == "<<" }) {
			return out, fmt.Errorf("line %d: aliases and << are not supported", n.Line)
		}
		switch key {
		case "env":
			for j := 0; j+1 < len(n.Content); j += 2 {
				name := n.Content[j].Value
				// Of a value only "$" is special.
				value := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(f.Env[name]) + `"`
				add(n.Content[j], key, name, build.Step{Op: build.OpEnv, Args: []string{name, value}, Expand: true})
			}
		case "workdir":
			add(n, key, f.Workdir, build.Step{Op: build.OpWorkdir, Args: []string{f.Workdir}})
		case "user":
			add(n, key, f.User, build.Step{Op: build.OpUser, Args: []string{f.User}})
		case "copy":
			for j, text := range f.Copy {
				args := strings.Fields(text)
				if len(args) == 1 {
					args = append(args, "./")
				}
				if len(args) == 0 || files == "" {
					return out, fmt.Errorf("line %d: copy %.80q: the source or the files of the build are missing", n.Content[j].Line, text)
				}
				add(n.Content[j], key, text, build.Step{Op: build.OpCopy, Args: args, Files: files})
			}
		case "run":
			for j, text := range f.Run {
				add(n.Content[j], key, text, build.Step{Op: build.OpRun, Args: []string{text}})
			}
		case "command":
			add(n, key, strings.Join(f.Command, " "), build.Step{Op: build.OpCommand, Args: f.Command, Exec: true})
		case "from":
			stage.Line = n.Line
		}
	}
	for _, s := range stage.Steps {
		if len(s.Args) == 0 || strings.TrimSpace(cmp.Or(s.Args...)) == "" || strings.ContainsRune(strings.Join(s.Args, ""), 0) {
			return out, fmt.Errorf("line %d: %s has no value, or a NUL byte", s.Line, strings.TrimSpace(s.Text))
		}
	}
	out.Stages = []build.Stage{stage}
	return out, nil
}
