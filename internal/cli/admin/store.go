package admin

import (
	"fmt"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/progress"
)

// StoreCommand is "hortus store".
type StoreCommand struct {
	Migrate storeMigrateCmd `cmd:"" help:"Copy all rows from the SQLite file of the data directory to an empty Postgres database, verify each row, and use that database from then on. No daemon may run."`
}

type storeMigrateCmd struct {
	From string `enum:"sqlite" default:"sqlite" help:"Kind of the database with the rows: sqlite."`
	To   string `placeholder:"URL" help:"Postgres database, such as postgres://hortus@db.example.org/hortus, without a password (default: store.url)."`
}

func (*storeMigrateCmd) OnlyHere() string { return "hortus store migrate" }

// Run copies the rows, with a line for each table.
func (c *storeMigrateCmd) Run(ctx app.Context, a *app.App) error {
	if a.Env.MigrateStore == nil {
		return api.Errorf(api.KindUnsupported, "this machine has no rows: it can only be a client").WithHint("run hortus store migrate on the machine with the daemon")
	}
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	opt := app.MigrateOptions{DataDir: dir, To: c.To}
	if a.Flags.Config != "" {
		if opt.ConfigFile, err = filepath.Abs(a.Flags.Config); err != nil {
			return api.Errorf(api.KindInvalid, "--config: %w", err)
		}
	}
	p := progress.New(a.Env, a.Flags.Quiet, "store")
	defer p.Close()
	sum := int64(0)
	opt.Report = func(table string, rows int64, verified bool) {
		switch {
		case !verified:
			p.Doing("copying table %s: %d rows", table, rows)
		case rows > 0:
			sum += rows
			p.Line("", progress.Green, fmt.Sprintf("%-16s %d rows copied and verified", table, rows))
		}
	}
	place, err := a.Env.MigrateStore(ctx, opt)
	if err != nil {
		return err
	}
	p.Close()
	if sum == 0 {
		a.Note("the rows are in %s already", place)
	} else {
		a.Note("%d rows are in %s", sum, place)
	}
	a.Note("next: set store.url (HORTUS_STORE_URL) to this database for the daemon; the SQLite file stays as it was")
	return nil
}
