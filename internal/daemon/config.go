package daemon

import (
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/internal/daemon/upkeep"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/front"
)

// Config is what a system is made of.
type Config struct {
	// DataDir holds all state; it is created if it does not exist.
	DataDir string
	// Idle is the time after which an unused daemon ends; 0 means DefaultIdle, below 0 it
	// never ends by itself.
	Idle time.Duration
	// FollowEvery is the time between two looks at the merge requests of a plan; 0 means 1 minute.
	FollowEvery time.Duration
	// Pool is the number of guests of each kind of sandbox that are booted ahead; 0 means DefaultPool, and a negative
	// number none. Candidates is the number of candidates of a task that work at a time; 0 means the default.
	Pool, Candidates int
	// Runsc is the path of the runsc executable of gVisor sandboxes; empty means the
	// embedded one or, if none is embedded, the one beside Executable.
	Runsc string
	// Executable is the path of the running program; empty means that no directory is
	// searched for gVisor.
	Executable string
	// Home and Path are where the host template finds toolchains.
	Home, Path string
	// Toolchains are those of them that it shows; see image.Config.
	Toolchains []string
	// Getenv reads the variables with keys and addresses of hosted models, forges and the
	// service manager; nil means that none is set.
	Getenv func(string) string
	Logger *slog.Logger
	// Level is the Logger's level; nil if it cannot be changed.
	Level *slog.LevelVar
	// Forges are the hosts that the configuration names, besides those of the environment;
	// Policy is what a delivery may do.
	Forges []config.Forge
	Policy config.Policy
	// KeySecrets names the secrets of the operator with the keys of hosted models, by vendor.
	KeySecrets map[string]string
	// Embedding is the name of the embedding model that searches lessons; empty means none. Similarity is the cosine
	// from which two failures are alike; 0 means the default.
	Embedding  string
	Similarity float64
	// Room has the limits of all sandboxes together; its functions are not used, and zero
	// fields take the defaults.
	Room admission.Config
	// Keep has the limits of rows of what has ended; zero fields take the defaults.
	Keep upkeep.Bounds
	// LayerBytes is the maximum size of all layers together; 0 is no limit.
	LayerBytes int64
	// AccountBytes is the maximum size of what one account stores; 0 is half of the file system of DataDir, below 0
	// there is no limit. The operator has none.
	AccountBytes int64
	// LayerArchive is a directory, or the address of an object store, for portable copies of
	// layers; empty means none.
	LayerArchive string
	// SnapshotArchive has a copy of each snapshot stored in LayerArchive. FetchedBytes is the maximum size of the copies that were
	// fetched from it; 0 is the default.
	SnapshotArchive bool
	FetchedBytes    int64
	// Store is the Postgres database for the rows; without a URL they are in a file of DataDir.
	Store Store
	// Fleet is how other daemons with the same database reach this one.
	Fleet FleetConfig
	// E2B and Daytona are the services of the backends of these names.
	E2B, Daytona RemoteService
	// Kubernetes is the cluster of the backend of this name; without a Namespace there is none.
	Kubernetes Kubernetes
	// CopyMemory makes sandboxes of gVisor share no memory.
	CopyMemory bool
	// DockerHost is the address of the Docker engine, DockerRuntime the name of its runtime for sandboxes;
	// empty means the default of the system, and that of the engine.
	DockerHost, DockerCertificates, DockerRuntime string
	// EmulateMachines lets QEMU emulate virtual machines on a host without KVM.
	EmulateMachines bool
	// Rates has the limits of requests of each user's key; zero fields take the defaults.
	Rates quota.RatesConfig
	// Drain is the time that streams of commands have after a signal; 0 ends them at once,
	// below 0 there is no limit.
	Drain time.Duration
	// StepTime is how long a daemon that stops waits for steps of tasks to end; 0 is 20 seconds.
	StepTime time.Duration
	// Usual is the sandbox that most clients create: guests of its kind are booted ahead,
	// and E2B's protocol, which has no isolation and limits, creates such sandboxes.
	Usual api.CreateSandbox
	// Front is the TCP listener; its zero value is none.
	Front front.Config
	// OpenID is the provider that people sign in to the console with; its zero value is none.
	OpenID OpenID
	// Egress configures the outgoing connections of sandboxes.
	Egress network.Config
	// ReadyWithin is the maximum time that a service manager waits for the daemon to be
	// ready while it serves already; 0 means DefaultReadyWithin.
	ReadyWithin time.Duration
}

// Store is a Postgres database.
type Store struct {
	URL string
	// PasswordFile has the password; empty means that of the environment.
	PasswordFile string
	// KeyFile has the key of sealed values; empty means that of the file in DataDir.
	KeyFile string
}

// FleetConfig is a node of a fleet. Its zero value is a node that others do not reach.
type FleetConfig struct {
	// Name is unique among the nodes; empty means the name of the host.
	Name string
	// Listen is the HOST:PORT that other nodes connect to; empty means none. Address is where they find it; empty means Listen.
	Listen, Address string
}

// RemoteService is a service that sandboxes of a backend run at. Without a KeySecret there is none.
type RemoteService struct {
	// KeySecret names the operator's secret with the API key.
	KeySecret string
	// APIURL is the address of the API; SandboxURL, if it is set, that of all sandboxes.
	APIURL, SandboxURL string
	// Domains are the domains of the addresses of sandboxes.
	Domains []string
	// Template is the template of sandboxes; empty means the service's default.
	Template string
	// Internet lets sandboxes connect to what the service allows, instead of nothing.
	Internet bool
}

// Kubernetes is a cluster whose pods are sandboxes.
type Kubernetes struct {
	kubernetes.Config
	// Internet lets sandboxes connect to everything that the cluster allows, instead of nothing.
	Internet bool
}

// OpenID is a provider of OpenID Connect. An empty Issuer is none.
type OpenID struct {
	Issuer, ClientID string
	// Secret is the name of the operator's secret with the client secret; empty for a client without one.
	Secret          string
	Scopes, Domains []string
	Claim           string
	// Rules are texts that openid.ParseRule reads.
	Rules []string
}

const (
	// DefaultIdle is the time after which an unused daemon ends.
	DefaultIdle = 3 * time.Second
	// DefaultReadyWithin is less than the time that systemd gives a service to start.
	DefaultReadyWithin = time.Minute
	// DefaultPool lets a task and its next attempt start at once. Each guest uses about two
	// megabytes.
	DefaultPool = 2
)

// withDefaults returns the configuration with the defaults of zero fields.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.Pool == 0 {
		c.Pool = DefaultPool
	}
	if c.ReadyWithin == 0 {
		c.ReadyWithin = DefaultReadyWithin
	}
	return c
}
