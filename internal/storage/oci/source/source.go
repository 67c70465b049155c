package source

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"hortus.dev/api"
)

// Bounds of an image.
const (
	maxDocument = 4 << 20 // bytes of a manifest or a configuration
	maxLayers   = 127     // Docker's maximum
	maxNesting  = 4       // of indexes in indexes
)

// Config configures Open.
type Config struct {
	// Keychain has the credentials of registries; nil means the user's Docker
	// configuration.
	Keychain authn.Keychain
	// Transport makes the requests; nil means the default one.
	Transport http.RoundTripper
	// Architecture is the platform's (default this machine's).
	Architecture string
	// Stall is the maximum time in which a registry sends nothing (default one minute).
	Stall time.Duration
}

// Image is an image to read. Close it after use.
type Image struct {
	// Reference is the complete reference, with registry and tag, or the path.
	Reference string
	// Digest identifies the content: that of the manifest, or of the configuration if the
	// archive has no manifest.
	Digest   string
	Platform string
	Settings Settings
	// Layers are the lowest first.
	Layers []Layer

	close func() error
}

// Settings are the parts of the configuration that are used, or are in an image that is exported.
type Settings struct {
	Env          []string
	Entrypoint   []string
	Cmd          []string
	User         string
	WorkingDir   string
	Labels       map[string]string
	ExposedPorts map[string]struct{}
	Volumes      map[string]struct{}
	StopSignal   string
}

// Layer is one layer.
type Layer struct {
	// DiffID is the digest of the uncompressed archive: "sha256:" and 64 hex digits.
	DiffID string
	// Size is the size of what Open returns, in bytes; -1 if it is not known.
	Size int64
	// Open opens the archive as it is stored, compressed or not.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Close releases the source.
func (i *Image) Close() error {
	if i.close == nil {
		return nil
	}
	return i.close()
}

// IsPath reports whether a reference is a path of this machine.
func IsPath(reference string) bool { return strings.HasPrefix(reference, "/") }

// Open finds an image and reads its manifest and configuration.
//
// Errors: KindInvalid for a malformed reference or image; KindNotFound if there is none;
// KindDenied if the registry refuses; KindUnsupported if it is not for this platform;
// KindUnavailable if the registry does not respond.
func Open(ctx context.Context, reference string, cfg Config) (*Image, error) {
	if cfg.Architecture == "" {
		cfg.Architecture = runtime.GOARCH
	}
	if cfg.Keychain == nil {
		cfg.Keychain = authn.DefaultKeychain
	}
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	cfg.Stall = cmp.Or(cfg.Stall, time.Minute)
	var img *Image
	var err error
	if IsPath(reference) {
		img, err = openPath(reference, cfg)
	} else {
		img, err = openRegistry(ctx, reference, cfg)
	}
	if err != nil {
		return nil, err
	}
	if len(img.Layers) > maxLayers {
		img.Close()
		return nil, api.Errorf(api.KindInvalid, "image %.200s has %d layers, the maximum is %d", reference, len(img.Layers), maxLayers)
	}
	return img, nil
}

// configuration is the document that a manifest refers to.
type configuration struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant"`
	RootFS       struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	Config Settings `json:"config"`
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parseConfiguration reads a configuration for an architecture and n layers.
func parseConfiguration(b []byte, architecture string, n int) (configuration, error) {
	var c configuration
	if err := json.Unmarshal(b, &c); err != nil {
		return c, api.Errorf(api.KindInvalid, "the configuration of the image is malformed: %w", err)
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != architecture {
		return c, api.Errorf(api.KindUnsupported, "the image is for %.40s/%.40s, this machine is linux/%s", c.OS, c.Architecture, architecture)
	}
	if len(c.RootFS.DiffIDs) != n {
		return c, api.Errorf(api.KindInvalid, "the image has %d layers, and its configuration lists %d", n, len(c.RootFS.DiffIDs))
	}
	for _, id := range c.RootFS.DiffIDs {
		if !digestForm.MatchString(id) {
			return c, api.Errorf(api.KindInvalid, "the layer digest %.80q of the image is malformed", id)
		}
	}
	return c, nil
}

// apply takes over a configuration.
func (i *Image) apply(c configuration) {
	i.Platform = "linux/" + c.Architecture
	i.Settings = c.Config
}
