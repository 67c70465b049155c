package remote

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"hortus.dev/api"
)

// Lease is the time that a sandbox of a service outlives its daemon.
const Lease = 15 * time.Minute

// The labels of sandboxes.
const (
	LabelSandbox = "hortus-sandbox" // api.SandboxID
	LabelOwner   = "hortus-owner"   // the ID of a data directory
)

// Box is a sandbox of a service.
type Box struct {
	// ID is the service's.
	ID string `json:"id"`
	// Access is what the service gave for requests about it, such as a token. It is stored in the record.
	Access map[string]string `json:"access,omitempty"`
	// Sandbox is the value of LabelSandbox; it is set in lists.
	Sandbox api.SandboxID `json:"-"`
}

// State is the state of a box.
type State string

const (
	Running State = "running"
	Ended   State = "ended" // its programs have ended and do not start again; it is still there
	Gone    State = "gone"  // there is none, and never will be
	Other   State = "other"
)

// Request is what a Create asks for.
type Request struct {
	Labels map[string]string
	// Internet is true if the sandbox may connect to everything that the service's may, and false if to nothing.
	Internet bool
	// Lease is the time until the service ends the sandbox, unless Extend is called.
	Lease time.Duration
	// Limits are the sandbox's. A service enforces those of its abilities.
	Limits api.Limits
}

// Guest is what runs in a box.
type Guest struct {
	Sandbox api.SandboxID
	// Program returns the compressed executable.
	Program func() ([]byte, error)
	// Config is the JSON of a birth.Remote.
	Config []byte
}

// Endpoint is where a port of a sandbox is reached.
type Endpoint struct {
	URL    *url.URL
	Header http.Header
}

// Explainer is a service that can say why a box has ended.
type Explainer interface {
	// Explain returns api.CauseMemory, another reason, or "".
	Explain(ctx context.Context, b Box) string
}

// Sharer is a service whose sandboxes have their files on disks that have others too, so that a guest cannot tell how much it uses.
type Sharer interface{ SharesDisks() }

// Uploader is a service that a guest is uploaded to.
type Uploader interface {
	// Upload writes a file, which all users of the sandbox may read.
	Upload(ctx context.Context, b Box, path string, content []byte) error
	// Run runs a shell script as the usual user, and fails if its exit code is not 0.
	Run(ctx context.Context, b Box, script string) error
}

// Service is the API of a service. Its methods may be called from several goroutines. Errors are *api.Error, and never
// contain the API key.
type Service interface {
	// Transport carries the requests for ports.
	Transport() http.RoundTripper
	// Name is the name that users select the backend by.
	Name() string
	// Check tries whether the service answers with this configuration. It changes nothing.
	Check(ctx context.Context) error
	// Create creates a sandbox that has started.
	Create(ctx context.Context, r Request) (Box, error)
	// List lists the boxes with a label LabelOwner.
	List(ctx context.Context, owner string) ([]Box, error)
	// State returns the state of a box.
	State(ctx context.Context, b Box) (State, error)
	// Boot starts the guest in a box, or gives a guest that started with the box its configuration.
	Boot(ctx context.Context, b Box, g Guest) error
	// Abilities are what the service can do besides what every service can: they replace those of [Backend.Probe].
	Abilities() []api.Ability
	// Endpoint returns where a port is.
	Endpoint(ctx context.Context, b Box, port int) (Endpoint, error)
	// Extend moves the deadline to a time from now.
	Extend(ctx context.Context, b Box, d time.Duration) error
	// Kill ends a box; nil if there is none.
	Kill(ctx context.Context, b Box) error
}
