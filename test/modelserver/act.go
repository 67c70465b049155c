package modelserver

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// schema is the schema of an object, or of a value.
type schema struct {
	Type       json.RawMessage   `json:"type"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// kind is the type of a value; the first if there are several.
func (s schema) kind() string {
	var name string
	if json.Unmarshal(s.Type, &name) == nil {
		return strings.ToLower(name)
	}
	var names []string
	if json.Unmarshal(s.Type, &names) == nil && len(names) > 0 {
		return strings.ToLower(names[0])
	}
	return ""
}

// filler is a value of the type.
func (s schema) filler() any {
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.kind() {
	case "boolean":
		return false
	case "integer", "number":
		return 10000 // such as a timeout
	case "array":
		return []any{}
	case "object":
		return obj{}
	}
	return "scripted"
}

// offer is a tool of a request.
type offer struct {
	name   string
	schema schema
}

// The names that agents give to their tools and parameters.
var (
	shells    = []string{"bash", "shell", "exec_command", "run_shell_command", "shell_command", "local_shell"}
	writers   = []string{"write", "write_file", "create", "create_file"}
	commands  = []string{"command", "cmd"}
	filePaths = []string{"filePath", "file_path", "path", "absolute_path"}
	contents  = []string{"content", "file_text", "contents", "text"}
)

// find returns the first offered tool of these names that has all parameters, of each group one.
func (r *request) find(names []string, groups ...[]string) (tool offer, params []string) {
	for _, name := range names {
		for _, o := range r.offered() {
			if strings.ToLower(o.name) != name {
				continue
			}
			params = nil
			for _, g := range groups {
				if i := slices.IndexFunc(g, func(p string) bool { _, ok := o.schema.Properties[p]; return ok }); i >= 0 {
					params = append(params, g[i])
				}
			}
			if len(params) == len(groups) {
				return o, params
			}
		}
	}
	return offer{}, nil
}

// acts reports whether the request offers a tool that runs commands.
func (r *request) acts() bool {
	tool, _ := r.find(shells, commands)
	return tool.name != ""
}

// act returns the call that does what a step says with the tools of a request; "" if they cannot.
func (r *request) act(s *Step) (tool, input string) {
	name, params, values := offer{}, []string(nil), []string(nil)
	if s.Act == "write" {
		name, params = r.find(writers, filePaths, contents)
		values = []string{s.Path, s.Body}
	}
	if name.name == "" {
		name, params = r.find(shells, commands)
		values = []string{s.command()}
	}
	if name.name == "" {
		return "", ""
	}
	in := obj{}
	for _, key := range name.schema.Required {
		in[key] = name.schema.Properties[key].filler()
	}
	for i, key := range params {
		in[key] = values[i]
		if name.schema.Properties[key].kind() == "array" {
			in[key] = []string{"sh", "-c", values[i]}
		}
	}
	b, err := json.Marshal(in)
	if err != nil {
		return "", ""
	}
	return name.name, string(b)
}

// command is what the step does as a shell command.
func (s *Step) command() string {
	if s.Act == "shell" {
		return s.Body
	}
	return "mkdir -p '" + path.Dir(s.Path) + "' && cat >'" + s.Path + "' <<'SCRIPTED'\n" + s.Body + "\nSCRIPTED"
}

// offered are the tools of a request of any API.
func (r *request) offered() (out []offer) {
	for _, t := range r.Tools {
		o := offer{t.Name, t.InputSchema}
		if t.Parameters.Properties != nil {
			o.schema = t.Parameters
		}
		if t.Function.Name != "" {
			o = offer{t.Function.Name, t.Function.Parameters}
		}
		if o.name != "" {
			out = append(out, o)
		}
		for _, d := range t.FunctionDeclarations {
			o := offer{d.Name, d.Parameters}
			if d.JSONSchema.Properties != nil {
				o.schema = d.JSONSchema
			}
			out = append(out, o)
		}
	}
	return out
}
