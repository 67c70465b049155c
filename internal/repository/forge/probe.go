package forge

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"hortus.dev/api"
)

// probes ask what every forge answers to anybody. A body proves nothing where a
// header does.
var probes = []struct {
	kind, path, header string
	// field must be a string of the answer's JSON, where no header tells.
	field string
}{
	// GitLab answers 401 with its header if nobody is logged in.
	{kind: GitLab, path: "/api/v4/version", header: "X-Gitlab-Meta"},
	// Gitea and Forgejo return their version.
	{kind: Gitea, path: "/api/v1/version", field: "version"},
	// GitHub Enterprise Server answers even in private mode with its headers.
	{kind: GitHub, path: "/api/v3/meta", header: "X-GitHub-Request-Id"},
}

// Limits of a probe: the timeout of each of its at most three requests, and the maximum size
// of an answer in bytes.
const (
	probeTime  = 10 * time.Second
	probeBytes = 64 << 10
)

// Probe detects the kind of a location's host, without a token and without following
// redirects. The host comes from a remote's URL, so the caller decides which addresses
// client may dial; nil is a client that dials any. KindUnsupported for a host that is not a
// forge, KindUnavailable for one that does not answer.
func Probe(ctx context.Context, l Location, client *http.Client) (Location, error) {
	if l.Kind != "" {
		return l, nil
	}
	if err := CheckAPI(l.Web); err != nil {
		return Location{}, err
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if client != nil {
		c.Transport = client.Transport
	}
	answered := false
	for _, p := range probes {
		found, err := probe(ctx, &c, l.Web+p.path, p.header, p.field)
		if ctx.Err() != nil {
			return Location{}, ctx.Err()
		}
		answered = answered || err == nil
		if found {
			l.Kind = p.kind
			l.API = apiURL(l.Kind, l.Web, l.Host)
			return l, l.Check()
		}
	}
	hint := "Say what it is in the setting of forges' hosts."
	if !answered {
		return Location{}, api.Errorf(api.KindUnavailable, "%s does not answer", l.Host).WithHint("%s", hint)
	}
	return Location{}, api.Errorf(api.KindUnsupported, "%s is not known to be a forge", l.Host).WithHint("%s", hint)
}

func probe(ctx context.Context, c *http.Client, address, header, field string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if header != "" {
		return resp.Header.Get(header) != "", nil
	}
	var answer map[string]any
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, probeBytes)).Decode(&answer) != nil {
		return false, nil
	}
	said, ok := answer[field].(string)
	return ok && said != "", nil
}
