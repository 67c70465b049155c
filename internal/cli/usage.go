package cli

import (
	"errors"
	"strings"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/contexts"
)

// ignoresConfig reports whether a command works whatever the configuration says.
func ignoresConfig(k *kong.Context) bool {
	if k == nil || k.Selected() == nil || !k.Selected().Target.CanAddr() {
		return false
	}
	_, ok := k.Selected().Target.Addr().Interface().(interface{ WithoutConfig() })
	return ok
}

// local marks the commands that are about this machine, whatever daemon others speak
// to. The text names the command.
type local interface{ OnlyHere() string }

// checkHere refuses --host for a command that could only ignore it. A context that is
// in use is no such word: it is about the commands that it can be about.
func checkHere(a *app.App) error {
	node := a.Parsed.Selected()
	if a.Flags.Host == "" || a.Flags.Host == contexts.Local || node == nil || !node.Target.CanAddr() {
		return nil
	}
	if c, ok := node.Target.Addr().Interface().(local); ok {
		return &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "%s works on this machine only; --host is not supported", c.OnlyHere()).
			WithHint("run it on that machine; or omit --host and unset HORTUS_HOST")}

	}
	return nil
}

// usageHint is what to do about a command line that makes no sense.
func usageHint(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		left, missing := strings.HasPrefix(err.Error(), "unexpected argument"), strings.HasPrefix(err.Error(), "expected")
		switch name := parse.Context.Selected().Path(); {
		case strings.HasSuffix(name, "task start") && (left || missing):
			return `put the request into quotes: hortus task --repo . "Fix the failing test"`
		case strings.HasSuffix(name, "task apply") && left:
			return "a branch is named with an equals sign: --branch=NAME"
		}
	}
	var unknown *kong.ParseError
	if errors.As(err, &unknown) && strings.HasPrefix(err.Error(), "unknown flag") && unknown.Context != nil && unknown.Context.Selected() != nil {
		if name := unknown.Context.Selected().Path(); strings.HasSuffix(name, "sandbox run") || strings.HasSuffix(name, "sandbox exec") {
			return "flags of the command inside go behind it, or behind --: hortus sandbox run -- ls --all. A sandbox of run is always removed"
		}
	}
	return "hortus --help, or hortus COMMAND --help"
}
