package task

import (
	"context"
	"fmt"
	"strings"

	"hortus.dev/api"
)

// interpreters says which program runs a language, and what brings it.
var interpreters = []struct {
	language      api.Language
	name, program string
	install       string
}{
	{api.Python, "Python", "python3", "apt install python3, dnf install python3 or apk add python3"},
	{api.JavaScript, "JavaScript", "node", "apt install nodejs, dnf install nodejs or apk add nodejs"},
}

// ready finds out, before a line is written, that programs of a language have
// nothing to run them in the sandboxes of a request: attempts would only repeat
// the same end.
func (e *Engine) ready(ctx context.Context, box api.CreateSandbox, l api.Language) error {
	if e.cfg.Tools == nil {
		return nil
	}
	tools, err := e.cfg.Tools(ctx, box)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, t := range tools {
		present[t.Name] = present[t.Name] || t.Present
	}
	var others []string
	for _, i := range interpreters {
		if i.language != l && present[i.program] {
			others = append(others, fmt.Sprintf("%s (%s)", i.name, i.program))
		}
	}
	for _, i := range interpreters {
		if i.language != l || present[i.program] {
			continue
		}
		hint := "Install it on this machine (" + i.install + ") and run it again."
		if len(others) > 0 {
			hint += " Or ask for " + strings.Join(others, " or ") + ", which is there."
		}
		return api.Errorf(api.KindUnsupported, "the program would be %s, and its sandbox has no %s: this machine, which the sandbox shows, lacks it",
			i.name, i.program).WithHint("%s", hint)
	}
	return nil
}
