package s3

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// The defaults of a Config.
const (
	DefaultWait     = 30 * time.Second
	DefaultRate     = 128 << 10
	DefaultPartSize = 16 << 20
)

// attempts is the maximum number of times that a request is sent.
const attempts = 2

// maxUploads is the maximum number of uploads at the same time; each has one part in memory.
const maxUploads = 2

// maxParts is the maximum number of parts of an upload, by the protocol.
const maxParts = 10_000

// abortWithin is the maximum time to remove the parts of a failed upload.
const abortWithin = 30 * time.Second

// Config configures a Bucket. Zero fields take the defaults.
type Config struct {
	Location Location
	// Wait is the maximum time that the server may make no progress.
	Wait time.Duration
	// Rate is the minimum number of bytes that the server transfers in a second.
	Rate int64
	// PartSize is the size of the parts of an upload, in bytes: at least 5 MiB on most servers.
	PartSize int
	// Base sends the requests; nil means a transport with the proxy of the environment.
	Base http.RoundTripper
}

// Bucket keeps blobs as objects. It implements archive.Blobs.
type Bucket struct {
	cfg     Config
	client  *minio.Core
	keys    *credentials.Credentials
	uploads chan struct{}
}

var _ archive.Blobs = (*Bucket)(nil)

// Open returns a bucket. It sends no request.
func Open(cfg Config) (*Bucket, error) {
	if cfg.Wait == 0 {
		cfg.Wait = DefaultWait
	}
	if cfg.Rate == 0 {
		cfg.Rate = DefaultRate
	}
	if cfg.PartSize == 0 {
		cfg.PartSize = DefaultPartSize
	}
	if cfg.Base == nil {
		cfg.Base = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: cfg.Wait}).DialContext, TLSHandshakeTimeout: cfg.Wait,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
		}
	}
	// The variables come first. Unlike the library's own chain this one never sends requests
	// without a signature.
	keys := credentials.New(&credentials.Chain{Providers: []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}})
	l := cfg.Location
	client, err := minio.NewCore(l.Host, &minio.Options{
		Creds: keys, Secure: !l.Insecure, Region: l.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: attempts,
		Transport: &transport{base: cfg.Base, scheme: l.scheme(), host: l.Host, wait: cfg.Wait, rate: cfg.Rate},
	})
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "object store %s: %w", l, err)
	}
	client.SetS3EnableDualstack(false) // its host has another name
	return &Bucket{cfg: cfg, client: client, keys: keys, uploads: make(chan struct{}, maxUploads)}, nil
}

// String returns the location.
func (b *Bucket) String() string { return b.cfg.Location.String() }

// ready says whether a request can be made for a blob, and its object.
func (b *Bucket) ready(name string) (object string, err error) {
	if err := archive.CheckBlob(name); err != nil {
		return "", err
	}
	v, err := b.keys.GetWithContext(b.client.CredContext())
	if err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return "", api.Errorf(api.KindUnauthenticated, "object store %s: the daemon has no credentials for it", b).
			WithHint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the daemon's environment, or write ~/.aws/credentials for the daemon's user, and start the daemon again")
	}
	return b.cfg.Location.Prefix + name, nil
}

// Get opens an object.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	object, err := b.ready(name)
	if err != nil {
		return nil, 0, err
	}
	last := new(body)
	r, info, _, err := b.client.GetObject(context.WithValue(ctx, lastBody{}, last), b.cfg.Location.Bucket, object, minio.GetObjectOptions{})
	if err != nil {
		return nil, 0, b.failed(ctx, name, err)
	}
	last.limit = -1 // the caller has one
	return &reader{r, b, ctx, name}, info.Size, nil
}

// reader reads an object.
type reader struct {
	io.ReadCloser
	b    *Bucket
	ctx  context.Context
	name string
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = r.b.failed(r.ctx, r.name, err)
	}
	return n, err
}

// Has reports whether there is an object.
func (b *Bucket) Has(ctx context.Context, name string) (bool, error) {
	object, err := b.ready(name)
	if err != nil {
		return false, err
	}
	_, err = b.client.StatObject(ctx, b.cfg.Location.Bucket, object, minio.StatObjectOptions{})
	if err = b.failed(ctx, name, err); api.KindOf(err) == api.KindNotFound {
		return false, nil
	}
	return err == nil, err
}

// Remove removes an object.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	object, err := b.ready(name)
	if err != nil {
		return err
	}
	err = b.failed(ctx, name, b.client.RemoveObject(ctx, b.cfg.Location.Bucket, object, minio.RemoveObjectOptions{}))
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	return err
}

// List lists objects.
func (b *Bucket) List(ctx context.Context, begin string, limit int) (names []string, err error) {
	if _, err := b.ready("list"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := 0
	prefix := b.cfg.Location.Prefix
	for o := range b.client.ListObjectsIter(ctx, b.cfg.Location.Bucket, minio.ListObjectsOptions{Prefix: prefix + begin}) {
		if o.Err != nil {
			return nil, b.failed(ctx, "list", o.Err)
		}
		if len(o.Key) > len(prefix) && strings.HasPrefix(o.Key, prefix+begin) && archive.CheckBlob(o.Key[len(prefix):]) == nil {
			names = append(names, o.Key[len(prefix):])
		}
		// Others count too: a server may send them without end.
		if seen++; len(names) >= limit || seen > limit+100_000 {
			break
		}
	}
	return names, nil
}

// failed says what an error is about, and what can be done.
func (b *Bucket) failed(ctx context.Context, name string, err error) error {
	var own *api.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &own):
		return api.Errorf(own.Kind, "object store %s: %w", b, own).WithHint("%s", own.Hint)
	}
	resp := minio.ToErrorResponse(err)
	kind, hint := api.KindUnavailable, "check that the daemon can reach the endpoint; proxies are taken from HTTPS_PROXY, certificate authorities from SSL_CERT_FILE"
	switch code := resp.StatusCode; {
	case resp.Code == minio.NoSuchKey:
		return archive.NotFound(name)
	case code == http.StatusPreconditionFailed:
		return archive.Exists(name)
	case resp.Code == minio.NoSuchBucket:
		hint = "create the bucket, or change the setting daemon.layer-archive"
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		kind, hint = api.KindDenied, "check the credentials in the daemon's environment or ~/.aws/credentials; they need s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucket"
	case code >= 300 && code < 400:
		kind, hint = api.KindDenied, "redirects are refused; set the endpoint and the region of the bucket in daemon.layer-archive"
	case code >= 500:
		hint = "the server reports that it fails; try again later"
	case code >= 400:
		hint = "check the endpoint, the bucket and the region in daemon.layer-archive"
	}
	return api.Errorf(kind, "object store %s: %.300q", b, err.Error()).WithHint("%s", hint)
}
