package admin

import (
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/terminal"
)

// ConsoleCommand is "hortus ui".
type ConsoleCommand struct {
	Print bool `help:"Print the URL only; do not open a browser."`
}

func (*ConsoleCommand) OnlyHere() string { return "hortus ui" }

// stayEvery is the time between two requests by which a daemon that a command started is kept.
const stayEvery = time.Second

// Run opens the console. A daemon that ends when it is idle is kept until the command is interrupted.
func (c *ConsoleCommand) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	link, err := cl.Console(ctx)
	if err != nil {
		return err
	}
	info, err := cl.Info(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		err = a.JSON(link)
	} else {
		a.Note("this link signs in one browser, within a minute:")
		_, err = fmt.Fprintln(a.Env.Stdout, link.URL)
	}
	if err != nil {
		return err
	}
	if terminal.HasDisplay(a) && !c.Print && !a.Flags.JSON {
		terminal.Browse(a, link.URL)
	}
	if info.Settings.IdleMS == nil || *info.Settings.IdleMS < 0 {
		return nil
	}
	a.Note("the console is available until you press Ctrl-C; hortus serve keeps it running")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(stayEvery):
		}
		if _, err := cl.Info(ctx); err != nil && ctx.Err() == nil {
			return api.Errorf(api.KindUnavailable, "the daemon has ended: %w", err)
		}
	}
}
