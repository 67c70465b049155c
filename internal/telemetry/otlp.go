package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"hortus.dev/api"
)

// collector sends spans to a collector: OTLP over HTTP, http/protobuf. It implements
// otlptrace.Client. The library's client for HTTP brings gRPC and its gateway along.
// https://opentelemetry.io/docs/specs/otlp/#otlphttp
type collector struct {
	url     string
	header  http.Header
	gzip    bool
	client  http.Client
	backoff time.Duration   // before the first retry; for tests
	ctx     context.Context // ends when the exporter is stopped
	cancel  context.CancelFunc
}

// Limits of sending a batch: the timeout of a request, the delays between attempts, the time for
// all of them, and the maximum size of an answer in bytes.
const (
	uploadTimeout = 10 * time.Second
	firstBackoff  = 5 * time.Second
	maxBackoff    = 30 * time.Second
	uploadWithin  = time.Minute
	maxAnswer     = 64 << 10
)

// variable returns a variable of the exporter: the one for traces goes before the one for
// everything.
func variable(getenv func(string) string, name string) (value, from string) {
	for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if v := strings.TrimSpace(getenv(from)); v != "" {
			return v, from
		}
	}
	return "", ""
}

// newCollector reads the standard variables. Those that it cannot follow are errors. The values of
// headers and addresses may be secrets, so an error does not have them.
func newCollector(getenv func(string) string, version string) (*collector, error) {
	endpoint, from := variable(getenv, "ENDPOINT")
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, api.Errorf(api.KindInvalid, "%s is not an http or https URL", from)
	}
	to := url.URL{Scheme: u.Scheme, Host: u.Host, Path: cmp.Or(u.Path, "/")}
	if !strings.Contains(from, "_TRACES_") {
		to.Path = path.Join("/", u.Path, "v1/traces")
	}
	c := &collector{url: to.String(), header: http.Header{}, client: http.Client{Timeout: uploadTimeout}, backoff: firstBackoff}
	c.header.Set("User-Agent", "hortus/"+version)
	v, from := variable(getenv, "HEADERS")
	for pair := range strings.SplitSeq(v, ",") {
		if v == "" {
			break
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" || strings.ContainsAny(name, " :\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, api.Errorf(api.KindInvalid, "%s must have NAME=VALUE pairs, separated by commas, with values escaped as in a URL", from)
		}
		c.header.Set(name, strings.TrimSpace(value))
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	switch v, from := variable(getenv, "COMPRESSION"); v {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	default:
		return nil, api.Errorf(api.KindUnsupported, "%s=%.40q: only gzip and none are supported", from, v)
	}
	if v, from := variable(getenv, "TIMEOUT"); v != "" {
		ms, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "%s=%.40q must be a number of milliseconds", from, v)
		}
		c.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = tlsConfig(getenv); err != nil {
		return nil, err
	}
	c.client.Transport = transport
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// tlsConfig reads the files of certificates that the variables name.
func tlsConfig(getenv func(string) string) (*tls.Config, error) {
	var cfg tls.Config
	if file, from := variable(getenv, "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "%s: %w", from, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, api.Errorf(api.KindInvalid, "%s: %s has no certificate in PEM format", from, file)
		}
	}
	cert, from := variable(getenv, "CLIENT_CERTIFICATE")
	key, fromKey := variable(getenv, "CLIENT_KEY")
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "%s, the client's certificate and key for the collector: %w", cmp.Or(from, fromKey), err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return &cfg, nil
}

// Start implements otlptrace.Client.
func (*collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client: it ends uploads.
func (c *collector) Stop(context.Context) error {
	c.cancel()
	return nil
}

// UploadTraces implements otlptrace.Client. It retries if the collector cannot be reached, or says
// that it is worth a retry.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The message of a request has the same wire format, but its package imports gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = b.Bytes()
	}
	ctx, cancel := context.WithTimeout(ctx, uploadWithin)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	for backoff := c.backoff; ; backoff = min(2*backoff, maxBackoff) {
		retry, after, err := c.send(ctx, body)
		if err == nil || !retry {
			return err
		}
		wait := time.NewTimer(max(after, backoff/2+rand.N(backoff)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

// send makes one attempt. After an error it reports whether another one may help, and when.
func (c *collector) send(ctx context.Context, body []byte) (retry bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = c.header.Clone()
	resp, err := c.client.Do(req)
	if err != nil {
		return true, 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16) // 0 if it is no number
		return true, time.Duration(seconds) * time.Second, fmt.Errorf("%s answered %s: %.400q", c.url, resp.Status, answer)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return false, 0, fmt.Errorf("%s answered %s: %.400q", c.url, resp.Status, answer)
	}
	if err != nil {
		return false, 0, err // it has the spans
	}
	if n, message := rejected(answer); n != 0 || message != "" {
		return false, 0, fmt.Errorf("%s rejected %d spans: %.400q", c.url, n, message)
	}
	return false, 0, nil
}

// rejected reads a collector's answer: the message partial_success (1) of it has the number of
// spans that were rejected (1) and a text (2). What is not such a message says nothing.
func rejected(answer []byte) (spans int64, message string) {
	partial, _ := field(answer, 1)
	_, n := field(partial, 1)
	text, _ := field(partial, 2)
	return int64(n), string(text)
}

// field returns the last field of a message with a number: its bytes, or its integer.
func field(message []byte, number protowire.Number) (b []byte, n uint64) {
	for len(message) > 0 {
		num, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, 0
		}
		size := protowire.ConsumeFieldValue(num, kind, message[tag:])
		if size < 0 {
			return nil, 0
		}
		if value := message[tag : tag+size]; num == number {
			switch kind {
			case protowire.BytesType:
				b, _ = protowire.ConsumeBytes(value)
			case protowire.VarintType:
				n, _ = protowire.ConsumeVarint(value)
			}
		}
		message = message[tag+size:]
	}
	return b, n
}
