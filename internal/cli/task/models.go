package task

import (
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/task/view"
)

// modelNames is what --model says: one model for all roles, others for some of
// them, or both: "NAME", "NAME,planner=NAME", "planner=NAME,coder=NAME".
type modelNames struct {
	all string
	by  api.Models
}

// modelRoles are what a model can be named for, in the order of their work.
const modelRoles = "planner, coder, debugger, large"

// UnmarshalText reads the flag. Whether there is such a model the daemon says.
func (m *modelNames) UnmarshalText(text []byte) error {
	*m = modelNames{}
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
func (m *modelNames) place(role string) (*string, error) {
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
func (m modelNames) of(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return m.all
}
