package sandbox

import (
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/terminal"
)

type sandboxIDECmd struct {
	oneSandbox
	Open bool `help:"Open the URL in a browser of this machine."`
}

// Help returns what the first line of help does not.
func (sandboxIDECmd) Help() string {
	return `Examples:

    hortus template create ide --preset ide
    hortus sandbox create --template ide
    hortus sandbox ide ID --open`
}

// Run prints where a browser opens the editor, and opens it.
func (c *sandboxIDECmd) Run(ctx app.Context, a *app.App) error {
	s, _, err := findAlive(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	link, err := s.IDEURL(ctx)
	if err != nil {
		return err
	}
	if err := printURL(a, link); err != nil {
		return err
	}
	if c.Open {
		terminal.Browse(a, link.URL)
	}
	return nil
}
