package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

// ServeCommand is "hortus serve".
type ServeCommand struct {
	Listen   string `env:"HORTUS_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on (default: 127.0.0.1:7070)."`
	Insecure bool   `name:"insecure-listen" env:"HORTUS_INSECURE_LISTEN" help:"Allow a listen address that other machines can reach, although the connection is not encrypted: API keys can be read on the network."`
	TLSCert  string `name:"tls-cert" env:"HORTUS_TLS_CERT" placeholder:"FILE" complete:"files" help:"PEM file with the certificate. It is read again when it changes (default: no TLS)."`
	TLSKey   string `name:"tls-key" env:"HORTUS_TLS_KEY" placeholder:"FILE" complete:"files" help:"PEM file with the key of the certificate."`
	ACME     string `name:"acme-names" env:"HORTUS_ACME_NAMES" placeholder:"NAME,..." help:"Host names to obtain a certificate for, from Let's Encrypt or the authority in serve.acme-directory, whose terms you accept. Port 443 of each name must lead to this address."`
	Redirect string `name:"redirect-listen" env:"HORTUS_REDIRECT_LISTEN" placeholder:"HOST:PORT" help:"Second address without TLS, such as :80. Browsers are led to HTTPS; requests with a key are refused."`
	Domain   string `env:"HORTUS_DOMAIN" placeholder:"DOMAIN" help:"Domain whose names PORT-ID.DOMAIN lead to the ports of sandboxes (default: localhost, for browsers on this machine)."`
	Public   string `name:"public-url" env:"HORTUS_PUBLIC_URL" placeholder:"URL" help:"URL of this daemon for clients on other machines: MCP clients can then sign in with OAuth (default: none)."`
	Store    string `env:"HORTUS_STORE_URL" placeholder:"URL" help:"Postgres database for the rows, such as postgres://hortus@db.example.org/hortus, without a password (default: a SQLite file in the data directory)."`
}

func (*ServeCommand) OnlyHere() string { return "hortus serve" }

// Run serves until it is stopped.
func (c *ServeCommand) Run(ctx app.Context, a *app.App) error {
	if a.Env.Serve == nil {
		return api.Errorf(api.KindUnsupported, "sandboxes need Linux; this machine can only be a client").WithHint("run hortus serve on a Linux machine or in WSL2")
	}
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	opt := app.ServeOptions{DataDir: dir, LogLevel: string(a.Flags.LogLevel), Listen: c.Listen, ACMENames: c.ACME, RedirectListen: c.Redirect, Domain: c.Domain, PublicURL: c.Public, Store: c.Store, Announce: func(url string, first api.CreatedKey) { announce(a, c.Listen, url, first) }}
	if a.Flags.Config != "" {
		if opt.ConfigFile, err = filepath.Abs(a.Flags.Config); err != nil {
			return api.Errorf(api.KindInvalid, "--config: %w", err)
		}
	}
	for _, file := range []struct {
		flag, path string
		to         *string
	}{{"tls-cert", c.TLSCert, &opt.TLSCert}, {"tls-key", c.TLSKey, &opt.TLSKey}} {
		if file.path == "" {
			continue
		}
		if *file.to, err = filepath.Abs(file.path); err != nil {
			return api.Errorf(api.KindInvalid, "--%s: %w", file.flag, err)
		}
	}
	if c.Insecure {
		opt.Insecure = "true"
	}
	return a.Env.Serve(ctx, opt)
}

// announce reports where the daemon is reached, and how with the first key. The key is
// printed here and nowhere else, and never into a log.
func announce(a *app.App, listen, at string, first api.CreatedKey) {
	if a.Flags.JSON {
		out := struct {
			URL string          `json:"url"`
			Key *api.CreatedKey `json:"key,omitempty"`
		}{URL: at}
		if first.Secret != "" {
			out.Key = &first
		}
		_ = a.JSON(out) // it serves whether or not somebody reads this
		return
	}
	a.Note("serving at %s", addresses(listen, at))
	if first.Secret == "" {
		return
	}
	a.Note("first API key, account %s, role %s; it is shown only once:", first.Account, first.Role)
	fmt.Fprintf(a.Env.Stdout, "export E2B_API_KEY=%s\nexport E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", first.Secret, at, at)
}

// addresses says where the daemon is reached. A URL of a daemon that listens at all addresses has that of this machine alone.
func addresses(listen, address string) string {
	host, _, err := net.SplitHostPort(listen)
	u, perr := url.Parse(address)
	if err != nil || perr != nil || host != "" && !net.ParseIP(host).IsUnspecified() {
		return address
	}
	return address + ", and at port " + cmp.Or(u.Port(), "443") + " of every address of this machine or pod"
}

// KeyCommand is "hortus key".
type KeyCommand struct {
	Create keyCreateCmd `cmd:"" help:"Create an API key and print it. It cannot be shown again."`
	Ls     keyLsCmd     `cmd:"" help:"List keys."`
	Rm     keyRmCmd     `cmd:"" help:"Revoke API keys. Revoked keys are rejected from the next request on."`
}

type keyCreateCmd struct {
	Account      string         `default:"default" placeholder:"NAME" help:"Account that owns everything created with the key. Other accounts cannot see it."`
	Role         string         `default:"user" enum:"user,admin" placeholder:"ROLE" help:"Role of the key: user, or admin for full access to all accounts."`
	Name         string         `placeholder:"TEXT" help:"Description of the key."`
	Expires      flags.Span     `placeholder:"90d" help:"Life of the key, from a minute to 3650d (default: it does not expire)."`
	MaxSandboxes int            `name:"max-sandboxes" placeholder:"N" help:"Maximum number of sandboxes at a time (default 100)."`
	MaxMemory    flags.Size     `name:"max-memory" placeholder:"8G" help:"Maximum memory of all sandboxes together (default 100 GiB)."`
	MaxCPUs      *float64       `name:"max-cpus" placeholder:"N" help:"Maximum processors of all sandboxes together (default 100)."`
	MaxTTL       flags.Duration `name:"max-ttl" placeholder:"1h" help:"Maximum time to live of a sandbox (default 24h)."`
	Isolation    string         `complete:"isolations" placeholder:"NAME" help:"Isolation of sandboxes of requests with the key that name none: a backend, or auto (default: that of the daemon)."`
	Isolations   []string       `name:"allow-isolation" complete:"isolations" sep:"none" placeholder:"NAME" help:"Backend that the key may use. Repeatable; all others are then refused (default: all that isolate)."`
	NoCeilings   bool           `name:"no-ceilings" help:"Do not set default limits; set only the limits given as flags."`
}

// Run makes a key.
func (c *keyCreateCmd) Run(ctx app.Context, a *app.App) error {
	req := api.CreateKey{Account: c.Account, Role: api.Role(c.Role), Name: c.Name, Ceilings: api.Ceilings{
		Sandboxes: c.MaxSandboxes, MemoryBytes: int64(c.MaxMemory), TTLMS: c.MaxTTL.Milliseconds(), Isolations: c.Isolations,
	}, Isolation: c.Isolation, ExpiresInMS: time.Duration(c.Expires).Milliseconds()}
	if c.MaxCPUs != nil {
		if req.Ceilings.CPUs = *c.MaxCPUs; !(*c.MaxCPUs > 0) {
			return api.Errorf(api.KindInvalid, "--max-cpus: %v is not a number of processors", *c.MaxCPUs)
		}
	}
	if c.NoCeilings && req.Role != api.RoleAdmin { // who has none anyway
		req.Ceilings = withoutDefaults(req.Ceilings)
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	made, err := cl.Keys.Create(ctx, req)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(made)
	}
	a.Note("key %s, account %s, role %s, expires %s; it is not shown again", made.ID, made.Account, made.Role, showExpiry(made.ExpiresAt, time.Now()))
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(made.Secret))
	return err
}

// withoutDefaults requests no ceiling where none is given.
func withoutDefaults(c api.Ceilings) api.Ceilings {
	if c.Sandboxes == 0 {
		c.Sandboxes = api.NoCeiling
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = api.NoCeiling
	}
	if c.CPUs == 0 {
		c.CPUs = api.NoCeiling
	}
	if c.TTLMS == 0 {
		c.TTLMS = api.NoCeiling
	}
	return c
}

type keyLsCmd struct {
	All bool `short:"a" help:"Include revoked keys."`
}

// Run lists keys.
func (c *keyLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Keys.List(ctx, c.All)
	if err != nil {
		return err
	}
	now := time.Now()
	return app.ShowList(a, list, "ID ACCOUNT ROLE PREFIX CREATED EXPIRES ISOLATION CEILINGS NAME", func(k api.Key) []string {
		name := k.Name
		if k.Person != nil {
			name += " (signs in at " + k.Person.Issuer + ")"
		}
		if !k.RevokedAt.IsZero() {
			name = "(revoked " + k.RevokedAt.Local().Format(time.DateTime) + ") " + name
		}
		return []string{human.Sanitize(string(k.ID)), human.Sanitize(k.Account), human.Sanitize(string(k.Role)), human.Sanitize(k.Hint),
			k.CreatedAt.Local().Format(time.DateTime), showExpiry(k.ExpiresAt, now), showIsolation(k.Isolation), showCeilings(k.Ceilings), human.Truncate(name, 60)}
	})
}

// showExpiry says when a key expires.
func showExpiry(at, now time.Time) string {
	switch left := at.Sub(now); {
	case at.IsZero():
		return "never"
	case left <= 0:
		return "expired"
	case left < 48*time.Hour:
		return "in " + human.Duration(left)
	default:
		return fmt.Sprintf("in %.0fd", left.Hours()/24)
	}
}

// showIsolation says what the default isolation of a key is.
func showIsolation(name string) string { return human.Sanitize(cmp.Or(name, "-")) }

func showCeilings(c api.Ceilings) string {
	out := ""
	add := func(set bool, format string, v any) {
		if set {
			if out != "" {
				out += ", "
			}
			out += fmt.Sprintf(format, v)
		}
	}
	add(c.Sandboxes > 0, "%d sandboxes", c.Sandboxes)
	add(c.MemoryBytes > 0, "%s", human.Size(c.MemoryBytes))
	add(c.CPUs > 0, "%g cpus", c.CPUs)
	add(c.TTLMS > 0, "ttl %s", human.Duration(time.Duration(c.TTLMS)*time.Millisecond))
	add(len(c.Isolations) > 0, "isolation %s", human.Sanitize(strings.Join(c.Isolations, " or ")))
	if out == "" {
		return "-"
	}
	return out
}

type keyRmCmd struct {
	IDs []string `arg:"" name:"id" help:"Key IDs, or unique prefixes of them."`
}

// Run revokes keys.
func (c *keyRmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	var errs []error
	gone := []api.Key{}
	for _, id := range c.IDs {
		k, err := cl.Keys.Revoke(ctx, id)
		if err != nil {
			errs = append(errs, app.Missing(err, "hortus key ls"))
			continue
		}
		gone = append(gone, k)
		a.Note("revoked %s", k.ID)
	}
	if a.Flags.JSON {
		errs = append(errs, a.JSON(gone))
	}
	return errors.Join(errs...)
}
