package admin

import (
	"errors"
	"fmt"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/platform/config"
)

func (*configPathCmd) WithoutConfig() {}

// ConfigCommand is "hortus config".
type ConfigCommand struct {
	Show configShowCmd `cmd:"" help:"Show every setting, its value and its origin."`
	Path configPathCmd `cmd:"" help:"Print the name of the configuration file."`
}

type configPathCmd struct{}

// Run prints the file's name, whether it is there or not.
func (*configPathCmd) Run(a *app.App) error {
	src := config.Source{Getenv: a.Getenv, UID: a.Env.UID}
	path := a.Flags.Config
	if path == "" {
		path = a.Getenv("HORTUS_CONFIG")
	}
	if path == "" {
		path = config.DefaultPath(src)
	}
	if path == "" {
		return api.Errorf(api.KindInvalid, "no home directory for the configuration file").WithHint("name a file: --config FILE")
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"path": path})
	}
	_, err := fmt.Fprintln(a.Env.Stdout, path)
	return err
}

type configShowCmd struct{}

// Run shows every setting.
func (*configShowCmd) Run(a *app.App) error {
	all := a.Config.All()
	for _, p := range a.Parsed.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		for i, v := range all {
			if v.Setting.Flag == p.Flag.Name {
				all[i].Text, all[i].Origin = fmt.Sprint(a.Parsed.FlagValue(p.Flag)), config.Origin{Kind: config.FromFlag, Name: p.Flag.Name}
			}
		}
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			Path     string         `json:"path"`
			Found    bool           `json:"found"`
			Settings []config.Value `json:"settings"`
		}{a.Config.Path, a.Config.Found, all})
	}
	found := ""
	if !a.Config.Found {
		found = " (there is none)"
	}
	w := a.Table()
	_, err := fmt.Fprintf(w, "# file: %s%s\nSETTING\tVALUE\tORIGIN\tVARIABLE\n", human.Sanitize(a.Config.Path), found)
	for _, v := range all {
		text := v.Text
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Setting.Key, human.Sanitize(text), human.Sanitize(v.Origin.String()), v.Setting.Env)
	}
	return errors.Join(err, w.Flush())
}
