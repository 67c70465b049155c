package envd

import (
	"context"
	"errors"
	"net/http"
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
	err := c.trust(ctx, pem, false)
	if errors.Is(err, errStale) {
		err = c.trust(ctx, pem, true)
	}
	return err
}

func (c *Client) trust(ctx context.Context, pem []byte, fresh bool) error {
	cc, err := c.get(ctx, fresh)
	if err != nil {
		return err
	}
	stop := watch(ctx, cc)
	cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodPut, PathTrust, "application/x-pem-file", len(pem), []header{versionHeader})
	var resp *http.Response
	if err == nil {
		cc.wbuf = append(cc.wbuf, pem...)
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
