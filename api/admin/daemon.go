package admin

import (
	"time"

	"hortus.dev/api"
)

// Version describes a binary.
type Version struct {
	Version string `json:"version"`
	// Build identifies the exact binary; two builds of one version differ.
	Build string `json:"build"`
	Go    string `json:"go"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	// GuestEmbedded reports whether the small guest is part of the binary.
	GuestEmbedded bool `json:"guestEmbedded"`
	// GVisor is the version of the gVisor that is part of the binary; empty when
	// none is.
	GVisor string `json:"gvisor,omitempty"`
}

// DaemonInfo is what a daemon says of itself.
type DaemonInfo struct {
	Version Version     `json:"version"`
	Owner   api.OwnerID `json:"owner"`
	PID     int         `json:"pid"`
	DataDir string      `json:"dataDir"`
	// Alive counts sandboxes and tasks that keep the daemon from leaving.
	Sandboxes int `json:"sandboxes"`
	Tasks     int `json:"tasks"`
	// Warm counts the guests that were booted ahead and wait for a sandbox,
	// WarmWanted those that should.
	Warm       int `json:"warm"`
	WarmWanted int `json:"warmWanted"`
	// Models marks what the daemon took from its environment for hosted models:
	// equal for equal settings, empty without any.
	Models string `json:"models,omitempty"`
	// Forges does the same for the tokens of forges.
	Forges string `json:"forges,omitempty"`
	// Node is its name among the nodes that share its database; empty if it has rows of its own.
	Node string `json:"node,omitempty"`
	// LeaseMS is how long after its end other nodes declare its sandboxes lost and continue its tasks; 0 if no other node is in service.
	LeaseMS int64 `json:"leaseMs,omitempty"`
	// URL is where it is reached over TCP; empty where it listens on its socket alone.
	URL string `json:"url,omitempty"`
	// Settings are what it runs with now.
	Settings DaemonSettings `json:"settings"`
}

// DaemonSettings are what can be set of a daemon while it runs.
type DaemonSettings struct {
	// LogLevel is debug, info, warn or error; empty leaves it as it is.
	LogLevel string `json:"logLevel,omitempty"`
	// IdleMS is how long it stays when nobody needs it, in milliseconds; below 0
	// it never leaves by itself. Nil leaves it as it is.
	IdleMS *int64 `json:"idleMs,omitempty"`
}

// Doctor is what this host can do, and why not where it cannot.
type Doctor struct {
	Version  Version             `json:"version"`
	Kernel   string              `json:"kernel"`
	User     string              `json:"user"`
	DataDir  string              `json:"dataDir"`
	Store    string              `json:"store,omitempty"` // the database with the rows
	Auto     string              `json:"auto"`            // what "auto" chooses; empty if nothing
	AutoWhy  string              `json:"autoWhy"`
	Backends []api.BackendReport `json:"backends"`
	Template api.TemplateReport  `json:"template"`
	Models   []ModelReport       `json:"models"`
	// LayerArchive is set if the daemon has an archive of layers.
	LayerArchive *ArchiveReport `json:"layerArchive,omitempty"`
	// Forges are the hosts with a token.
	Forges []ForgeReport `json:"forges,omitempty"`
}

// ForgeReport says of a forge whether its token can be read. The forge itself is not asked.
type ForgeReport struct {
	// Kind is github, gitlab or gitea.
	Kind string `json:"kind"`
	Host string `json:"host"`
	// Token says where the token is: in a variable, in a file, or in the secret NAME. It is
	// not the token.
	Token string `json:"token"`
	OK    bool   `json:"ok"`
	// Reason and Fix are set when OK is false.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// ArchiveReport says whether the archive of layers can be read and written.
type ArchiveReport struct {
	// Location is a directory, or the address of an object store.
	Location string `json:"location"`
	OK       bool   `json:"ok"`
	// Reason and Fix are set when OK is false.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// ModelReport says of a model whether it can be asked.
type ModelReport struct {
	// Name is what --model takes.
	Name string `json:"name"`
	// Model is the whole name of what answers to it.
	Model   string `json:"model,omitempty"`
	Default bool   `json:"default,omitempty"`
	// BaseURL is where it is asked, when that is not the vendor's own place.
	BaseURL string `json:"baseUrl,omitempty"`
	OK      bool   `json:"ok"`
	// Source is where the model of a server of this machine is, or where the key comes from.
	Source string `json:"source,omitempty"`
	// Reason and Fix are set when OK is false.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// ConsoleLink opens the web console.
type ConsoleLink struct {
	// URL signs in the browser that opens it, once.
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}
