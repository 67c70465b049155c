package network

import (
	"crypto/x509"
	"net/url"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/egress/dial"
)

// Config configures the outgoing connections of sandboxes.
type Config struct {
	// Proxy is the URL of an HTTP proxy that every connection is made through; empty means
	// direct connections.
	Proxy string
	// CAFile is a PEM file with authorities that servers may have, besides those of the host.
	CAFile string
	// CacheBytes is the maximum size of the package cache; 0 means none.
	CacheBytes int64
	// E2BInternet allows all public hosts to E2B clients that do not restrict a sandbox.
	E2BInternet bool
	// Resolver resolves names; nil means that of the host.
	Resolver dial.Resolver
}

// Dialer makes what connects to servers.
func (c Config) Dialer() (*dial.Dialer, error) {
	cfg := dial.Config{Resolver: c.Resolver}
	if text := c.Proxy; text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return nil, api.Errorf(api.KindInvalid, "setting egress.proxy is not the URL of an HTTP proxy").
				WithHint("use for example http://proxy.example.org:3128")
		}
		cfg.Proxy = func(string, int) *url.URL { return u }
	}
	return dial.New(cfg), nil
}

// Roots returns the authorities that servers may have; nil means those of the host.
func (c Config) Roots() (*x509.CertPool, error) {
	file := c.CAFile
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "setting egress.ca-file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the certificate authorities of this machine: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, api.Errorf(api.KindInvalid, "setting egress.ca-file: %s has no certificate in PEM format", file)
	}
	return roots, nil
}
