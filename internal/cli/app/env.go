package app

import (
	"context"
	"io"
	"os"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/platform/gvisorbuild"
)

// GVisor builds gVisor for the sandboxes of a data directory.
type GVisor interface {
	// State returns how far the build is.
	State() gvisorbuild.State
	// Build builds it, or waits while another process does.
	Build(context.Context) error
	// Start runs this program with arguments in the background.
	Start(args ...string) error
}

// Env is the process that the commands run in.
type Env struct {
	// Stdin, Stdout and Stderr are the process's own. Those that are *os.File
	// and lead to a terminal are treated as one.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// UID is the user's number; it decides where files are by default.
	UID int
	// Version describes this binary.
	Version func() admin.Version
	// Catalogue lists what the built-in model does. Nil if there is none.
	Catalogue func() ([]api.CatalogueEntry, error)
	// ModelAtHand finds the model to use if none is configured, with the configured secrets of keys by vendor: a hosted
	// one with a key or one of a server on this machine. Nil where no daemon can run.
	ModelAtHand func(ctx context.Context, keySecrets map[string]string) (admin.ModelReport, bool)
	// Inspect is what lies in a data directory, ours and not; Remove removes
	// what is ours. Nil where no daemon can run.
	Inspect func(dir string) (ours, foreign []string, err error)
	Remove  func(ctx context.Context, dir string) error
	// AwaitStop waits until a daemon that was stopped, with a process ID, no longer uses a data directory. Nil where no daemon can run.
	AwaitStop func(ctx context.Context, dir string, pid int) error
	// MigrateStore copies the rows of a data directory to the Postgres database with an address, or to the one in the
	// configuration if it is empty. It reports the rows of each table that were copied, and then that they were
	// verified. Nil where no daemon can run.
	MigrateStore func(ctx context.Context, opt MigrateOptions) (place string, err error)
	// Serve serves a data directory until it is stopped. Nil where no daemon can
	// run.
	Serve func(ctx context.Context, opt ServeOptions) error
	// BuildGVisor gives the builder of gVisor for a directory. Nil where no daemon can
	// run. GoRun reports whether go run made this program; nil is never.
	BuildGVisor func(dir string) (GVisor, error)
	GoRun       func() bool
	// Probe returns the program that tests outgoing connections in a sandbox. Nil where no
	// daemon can run.
	Probe func() ([]byte, error)
	// InstallPython installs a Python interpreter for wasm sandboxes into a directory, if it has
	// the digest, and returns its digest. Nil where no daemon can run.
	InstallPython func(dir string, module io.Reader, digest string) (string, error)
	// InstallKernel installs the kernel of virtual machines into a directory, if its file has the digest,
	// and returns its release and digest. Nil where no daemon can run.
	InstallKernel func(ctx context.Context, dir, file, digest string) (release, sum string, err error)
	// Environ is the environment of the programs that are started here; nil is
	// this process's own.
	Environ []string
	// Signals delivers the process's signals instead of os/signal; for tests.
	Signals <-chan os.Signal
	// Exit ends the process at once, at a second Ctrl-C.
	Exit func(code int)
}

// ConnectOptions say which daemon is wanted.
type ConnectOptions struct {
	DataDir string
	// ConfigFile is the configuration file that was named, if one was, for a
	// daemon that is started.
	ConfigFile string
	// Settings are those of the daemon that were named.
	Settings admin.DaemonSettings
	// MustRun requests a daemon that runs already: none is started.
	MustRun bool
	// Models requests a daemon with the keys of models that are set here, if any.
	Models bool
	// Forges requests one with the tokens of forges that are set here, if any;
	// TokenVariables are variables that the configuration names for them.
	Forges         bool
	TokenVariables []string
}

// Connect finds the daemon of a data directory.
type Connect func(ctx context.Context, opt ConnectOptions) (*client.Client, error)

// MigrateOptions say which rows are copied where.
type MigrateOptions struct {
	DataDir, ConfigFile, To string
	Report                  func(table string, rows int64, verified bool)
}

// ServeOptions are the flags of `hortus serve`; an empty field is a flag that was not set.
type ServeOptions struct {
	DataDir, ConfigFile, LogLevel string
	// Listen is HOST:PORT. Insecure is "true" for one that others than this machine
	// may reach.
	Listen, Insecure string
	// TLSCert, TLSKey, ACMENames, RedirectListen, Domain and PublicURL are the settings of these names; Store is store.url.
	TLSCert, TLSKey, ACMENames        string
	RedirectListen, Domain, PublicURL string
	Store                             string
	// Announce receives where the daemon is reached, and the first key where one was
	// made.
	Announce func(url string, first api.CreatedKey)
}
