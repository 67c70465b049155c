package envd

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
)

// PathsOfHost begins the paths that are between a guest and its host: no server leads to one.
const PathsOfHost = "/hortus/"

const (
	// PathTrust is where a host gives its guest the certificates of the authority that
	// signs for terminated TLS connections: PUT with a PEM bundle of 1 to
	// MaxTrustCertificates CA certificates, at most MaxTrust bytes. The guest adds them to
	// the trust stores of the sandbox. They replace those of an earlier request; an empty
	// body removes them. The answer is 204, or 500 if some trust stores could not be
	// changed. It is hortus.v1, and no server leads to it.
	PathTrust = "/hortus/trust"
	// MaxTrust is the maximum size of a bundle, in bytes.
	MaxTrust = 64 << 10
	// MaxTrustCertificates is the maximum number of certificates in a bundle.
	MaxTrustCertificates = 8
)

// maxTrustText is the maximum that is kept of a guest's reason, in bytes.
const maxTrustText = 1 << 10

// Trust makes the programs of a sandbox trust the certificate authorities in a PEM bundle,
// instead of those of an earlier call; an empty bundle removes them. See PathTrust for the
// limits. It is idempotent. Commands that are running keep their environment variables.
//
// An [*Error] is the guest's answer. Its message is the guest's and untrusted. With the HTTP
// status 500 the guest has changed what it could. 404 is the answer of a guest that shares
// the files of its host.
func (c *Client) Trust(ctx context.Context, pem []byte) error {
	if len(pem) > MaxTrust {
		return api.Errorf(api.KindInvalid, "the bundle of certificates has %d bytes; the maximum is %d", len(pem), MaxTrust)
	}
	return c.order(ctx, PathTrust, "application/x-pem-file", pem)
}

const (
	// PathLifetime is where a host gives its guest the time after which the guest ends by itself, with everything that
	// runs in the sandbox: PUT with a number of milliseconds, at most MaxLifetime; 0 is no such end. The answer is 204.
	// It is hortus.v1, and no server leads to it. It is for a host whose daemon dies.
	PathLifetime = "/hortus/lifetime"
	// MaxLifetime is the maximum of such a time.
	MaxLifetime = 10 * 365 * 24 * time.Hour
)

// SetLifetime makes a guest end by itself after a time, which replaces that of an earlier call; 0 is never. See PathLifetime.
// It is idempotent. An [*Error] with 404 is the answer of a guest that does not end by itself: one of a sandbox that shares
// its host's processes.
func (c *Client) SetLifetime(ctx context.Context, left time.Duration) error {
	return c.order(ctx, PathLifetime, "text/plain", strconv.AppendInt(nil, min(left, MaxLifetime).Milliseconds(), 10))
}

// order sends a small body to a path of hosts, again if the connection that was kept had ended.
func (c *Client) order(ctx context.Context, path, contentType string, body []byte) error {
	err := c.orderOnce(ctx, path, contentType, body, false)
	if errors.Is(err, errStale) {
		err = c.orderOnce(ctx, path, contentType, body, true)
	}
	return err
}

func (c *Client) orderOnce(ctx context.Context, path, contentType string, body []byte, fresh bool) error {
	cc, err := c.get(ctx, fresh)
	if err != nil {
		return err
	}
	stop := watch(ctx, cc)
	cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodPut, path, contentType, len(body), []header{versionHeader})
	var resp *http.Response
	if err == nil {
		cc.wbuf = append(cc.wbuf, body...)
		resp, err = c.exchange(ctx, cc, http.MethodPut)
	}
	if err != nil {
		stop()
		cc.Close()
		return err
	}
	cc.SetReadDeadline(time.Now().Add(c.cfg.Timeout))
	if resp.StatusCode != http.StatusNoContent {
		refusal := readError(resp)
		refusal.Message = refusal.Message[:min(len(refusal.Message), maxTrustText)]
		err = refusal
	}
	cc.SetReadDeadline(time.Time{})
	if !stop() {
		cc.Close()
		return ctx.Err()
	}
	c.finish(cc, resp)
	return err
}
