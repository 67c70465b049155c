package bench

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/sandbox"
)

// Counters counts what sandboxes can leave on the host: run directories and control groups of
// backends, and the files of the database.
func Counters(backends []sandbox.Backend, database string) []Counter {
	return []Counter{
		{Name: "leftovers", Note: "run directories and control groups of sandboxes", Count: func(ctx context.Context) (float64, error) {
			total := 0
			for _, b := range backends {
				ids, err := b.Orphans(ctx)
				if err != nil {
					return 0, err
				}
				total += len(ids)
			}
			return float64(total), nil
		}},
		{Name: "database", Unit: "MB", Note: "rows and events of ended sandboxes are kept", Count: func(context.Context) (float64, error) {
			var total int64
			for _, suffix := range []string{"", "-ahead", "-wal"} {
				fi, err := os.Stat(database + suffix)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return 0, err
				}
				total += fi.Size()
			}
			return float64(total) / 1e6, nil
		}},
	}
}

// Keys creates and revokes API keys.
type Keys interface {
	Create(ctx context.Context, req api.CreateKey) (api.CreatedKey, error)
	Revoke(ctx context.Context, id api.KeyID) (api.Key, error)
}

// Servers is how a measured daemon is reached.
type Servers struct {
	// Socket is the path of its unix socket, URL the address of its TCP listener.
	Socket, URL string
	// Keys creates the API key of the measurement, for an account.
	Keys    Keys
	Account string
	// NPM is a directory with the installed npm package e2b; empty means none. Backends
	// chooses the backend of its sandboxes for the configured Isolation.
	NPM       string
	Isolation string
	Backends  interface {
		Choose(ctx context.Context, isolation string, needed ...api.Capability) (sandbox.Backend, api.BackendReport, string, error)
	}
	Logger *slog.Logger
}

// Open returns the servers. With a TCP listener the measurement has an API key of its own,
// which end revokes.
func (d Servers) Open(ctx context.Context) (servers []Server, end func(), err error) {
	servers = []Server{{Name: "unix socket", Open: func() (*client.Client, error) { return client.Unix(d.Socket), nil }}}
	if d.URL == "" {
		const why = "this daemon has no TCP listener; that of hortus serve has one"
		return append(servers, Server{Name: "TCP", Missing: why}, Server{Name: "npm e2b", Missing: why}), func() {}, nil
	}
	k, err := d.Keys.Create(ctx, api.CreateKey{Name: "bench", Account: d.Account, Role: api.RoleUser,
		Ceilings: api.Ceilings{Sandboxes: api.NoCeiling, MemoryBytes: api.NoCeiling, CPUs: api.NoCeiling, TTLMS: api.NoCeiling}})
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		if _, err := d.Keys.Revoke(context.WithoutCancel(ctx), k.Key.ID); err != nil {
			d.Logger.Error("the API key of the bench was not revoked", "key", k.Key.ID, "error", err)
		}
	}
	npm := Server{Name: "npm e2b", Missing: "daemon.bench-npm names no directory with the package"}
	if d.NPM != "" {
		usual, _, _, err := d.Backends.Choose(ctx, d.Isolation)
		if err != nil {
			end()
			return nil, nil, err
		}
		npm = Server{Name: npm.Name, NPM: &NPM{Dir: d.NPM, URL: d.URL, Key: k.Secret, Isolation: usual.Name()}}
	}
	return append(servers, Server{Name: "TCP", Open: func() (*client.Client, error) { return client.Remote(d.URL, k.Secret) }}, npm), end, nil
}
