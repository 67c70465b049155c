package s3

import (
	"net"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// Scheme begins the text of every location.
const Scheme = "s3://"

// defaultRegion is what servers outside AWS usually call their only region.
const defaultRegion = "us-east-1"

// Location says where blobs are.
type Location struct {
	// Bucket is the bucket's name, Prefix what object names begin with: empty, or with "/" at
	// the end.
	Bucket, Prefix string
	// Host is the server's name, with its port unless that is the usual one. Insecure uses
	// http, which is for a server on this machine only.
	Host     string
	Insecure bool
	Region   string
	// text is what was parsed.
	text string
}

var (
	bucketForm = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,299}$`)
	regionForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,59}$`)
)

// Parse reads s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION. The prefix is
// optional. Without an endpoint the server is that of AWS for the region.
//
// Errors: KindInvalid.
func Parse(text string) (Location, error) {
	bad := func(format string, args ...any) (Location, error) {
		e := api.Errorf(api.KindInvalid, format, args...)
		return Location{}, api.Errorf(api.KindInvalid, "address of an object store: %w", e).
			WithHint("its form is s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION; credentials are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws/credentials")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" {
		return bad("it does not begin with s3:// or is not a URL") // the text may have a secret
	}
	if u.User != nil {
		return bad("it has a user or password, which would be in settings and logs")
	}
	if u.Fragment != "" || strings.Contains(text, "#") || u.Opaque != "" {
		return bad("it has more than a bucket, a prefix, an endpoint and a region")
	}
	l := Location{Bucket: u.Host}
	if !bucketForm.MatchString(l.Bucket) || strings.Contains(l.Bucket, "..") || net.ParseIP(l.Bucket) != nil {
		return bad("%.100q is not the name of a bucket", l.Bucket)
	}
	if p := strings.Trim(u.Path, "/"); p != "" {
		if !prefixForm.MatchString(p) || strings.Contains(p, "//") || strings.Contains("/"+p+"/", "/../") || strings.Contains("/"+p+"/", "/./") {
			return bad("%.100q is not a prefix: letters, digits, and . _ / - are allowed", p)
		}
		l.Prefix = p + "/"
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows ? is malformed")
	}
	for key, values := range q {
		if key != "endpoint" && key != "region" {
			return bad("unknown parameter %.40q", key)
		}
		if len(values) != 1 || values[0] == "" {
			return bad("the parameter %s needs one value", key)
		}
	}
	l.Region = q.Get("region")
	if l.Region != "" && !regionForm.MatchString(l.Region) {
		return bad("%.100q is not a region", l.Region)
	}
	endpoint := q.Get("endpoint")
	switch {
	case endpoint == "" && l.Region == "":
		return bad("it has neither an endpoint nor a region")
	case endpoint == "":
		l.Host = "s3." + l.Region + ".amazonaws.com"
		if strings.HasPrefix(l.Region, "cn-") {
			l.Host += ".cn"
		}
	default:
		var wrong string
		if l.Host, l.Insecure, wrong = server(endpoint); wrong != "" {
			return bad("endpoint: %s", wrong)
		}
		if l.Region == "" {
			l.Region = defaultRegion
		}
	}
	l.text = l.canonical(endpoint != "")
	return l, nil
}

// server reads the address of a server; wrong says what is not allowed.
func server(endpoint string) (host string, insecure bool, wrong string) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return "", false, "it is not https://HOST or https://HOST:PORT"
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", false, "it has more than a host and a port"
	}
	if insecure = u.Scheme == "http"; insecure {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return "", false, "http is for servers on this machine only, because others could change layers on the way; use https"
		}
	}
	host = u.Host
	if p := u.Port(); p == "443" && !insecure || p == "80" && insecure || p == "" {
		host = strings.TrimSuffix(strings.TrimSuffix(u.Host, ":"+p), ":")
	}
	return strings.ToLower(host), insecure, ""
}

func (l Location) scheme() string {
	if l.Insecure {
		return "http"
	}
	return "https"
}

func (l Location) canonical(endpoint bool) string {
	text := Scheme + l.Bucket + "/" + l.Prefix + "?"
	if endpoint {
		text += "endpoint=" + l.scheme() + "://" + l.Host + "&"
	}
	return text + "region=" + l.Region
}

// String is the location in the form that Parse reads.
func (l Location) String() string { return l.text }
