package rpc

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
)

// maxFollow is the longest timeout of a stream. A longer one is ignored.
const maxFollow = 365 * 24 * time.Hour

// ErrStreamTimeout ends a stream that reached its timeout.
var ErrStreamTimeout = api.Errorf(api.KindTimeout, "the stream reached its timeout")

// StreamOptions are the options in the headers of a streaming call.
type StreamOptions struct {
	Timeout   time.Duration // 0 for no limit
	Keepalive time.Duration // interval of messages on an idle stream; 0 for none
	Due       time.Time     // when the stream ends; zero for never
}

// StreamOptionsOf reads the headers of a streaming call.
func StreamOptionsOf(req *http.Request) (o StreamOptions, err error) {
	ms, err := IntHeader(req, "Connect-Timeout-Ms", 0)
	if err != nil {
		return o, err
	}
	o.Timeout = time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	if o.Timeout > 0 && o.Timeout < maxFollow {
		o.Due = time.Now().Add(o.Timeout)
	}
	seconds, err := IntHeader(req, "Keepalive-Ping-Interval", 0)
	o.Keepalive = time.Duration(min(seconds, 1<<30)) * time.Second
	return o, err
}

// Over returns a channel that receives a value at Due; nil if there is no timeout. The
// caller must call stop.
func (o StreamOptions) Over() (over <-chan time.Time, stop func()) {
	if o.Due.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(o.Due))
	return t.C, func() { t.Stop() }
}

// Late reports whether Due has passed.
func (o StreamOptions) Late() bool { return !o.Due.IsZero() && !time.Now().Before(o.Due) }

// IntHeader parses a header with a number of at least 0. It returns absent if the header is
// missing.
func IntHeader(req *http.Request, name string, absent int64) (int64, error) {
	v := req.Header.Get(name)
	if v == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, api.Errorf(api.KindInvalid, "header %s: %q is not a non-negative number", name, v)
	}
	return n, nil
}
