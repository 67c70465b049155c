package task

import (
	"context"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// ready finds out, before a line is written, that programs of a language have
// nothing to run them in the sandboxes of a request: attempts would only repeat
// the same end.
func ready(ctx context.Context, find func(context.Context, api.CreateSandbox) ([]api.Tool, error), box api.CreateSandbox, name api.Language) error {
	l, ok := language.Of(name)
	if !ok || find == nil {
		return nil
	}
	tools, err := find(ctx, box)
	if err != nil {
		return err
	}
	lacks := l.Lacks(tools)
	if lacks == "" {
		return nil
	}
	var others []string
	for _, other := range language.All() {
		if other.Lacks(tools) == "" {
			others = append(others, other.Title)
		}
	}
	where := "is not installed on this machine, which the sandbox shows"
	hint := "Install it on this machine (on Debian: apt install " + l.Package + ") and run the command again."
	if t := box.Template; t != "" && t != api.HostTemplate {
		where = "is not in the template " + t
		hint = "Use a template or an image that has it."
	}
	if len(others) > 0 {
		hint += " Available languages: " + strings.Join(others, ", ") + "."
	}
	return api.Errorf(api.KindUnsupported, "the program would be %s, but %s %s", l.Title, lacks, where).WithHint("%s", hint)
}
