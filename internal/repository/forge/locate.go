package forge

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"hortus.dev/api"
)

// Location is the address of a repository at a forge.
type Location struct {
	// Kind is the kind of the forge; empty for an unknown host: see [Probe].
	Kind string
	// Host is the name of the forge's web server in lower case, with its port unless it
	// is the default.
	Host string
	// Owner is the user, organisation, or group with its subgroups ("a/b/c").
	Owner string
	// Name is the repository, without .git.
	Name string
	// API is the base URL of the forge's API; empty if Kind is.
	API string
	// Web is the base URL of the forge, without a slash at its end.
	Web string
}

// Path is owner and name.
func (l Location) Path() string { return l.Owner + "/" + l.Name }

// String returns the location for people: "github.com/owner/name".
func (l Location) String() string { return l.Host + "/" + l.Path() }

// Check validates a location that was not returned by [Locate].
func (l Location) Check() error {
	if !slices.Contains(Kinds[:], l.Kind) {
		return api.Errorf(api.KindInvalid, "%q is no kind of forge: it must be one of %s", l.Kind, strings.Join(Kinds[:], ", "))
	}
	if err := CheckAPI(l.API); err != nil {
		return err
	}
	return checkPath(l.Kind, append(strings.Split(l.Owner, "/"), l.Name))
}

// public are the public hosts by their name in a URL. Some have another name for SSH.
var public = map[string]struct{ kind, host string }{
	"github.com":        {GitHub, "github.com"},
	"ssh.github.com":    {GitHub, "github.com"},
	"gitlab.com":        {GitLab, "gitlab.com"},
	"altssh.gitlab.com": {GitLab, "gitlab.com"},
	"gitea.com":         {Gitea, "gitea.com"},
	"codeberg.org":      {Gitea, "codeberg.org"},
}

// maxRemote is the maximum length of a remote's URL, in bytes.
const maxRemote = 2048

// Locate parses the URL of a git remote: https://, http://, ssh://, git:// and git's short
// form user@host:path. The user is ignored and not part of an error.
//
// hosts are the kinds of forges that are not public. A key is a host, optionally with a port
// or a path ("git.example.org", "git.example.org:3000", "example.org/gitlab"); the longest
// match counts. A value is a kind ("gitlab"), optionally with the URL of the forge's web
// server if it does not follow from the remote ("gitlab+https://git.example.org:8443").
//
// For an unknown host, Kind and API are empty.
func Locate(remote string, hosts map[string]string) (Location, error) {
	r, err := parseRemote(remote)
	if err != nil {
		return Location{}, err
	}
	path := r.path
	var l Location
	if key, rest := match(r, hosts); key != "" {
		kind, web, _ := strings.Cut(hosts[key], "+")
		if !slices.Contains(Kinds[:], kind) {
			return Location{}, api.Errorf(api.KindInvalid, "the setting for the host %q names no kind of forge", key).
				WithHint("Use one of %s.", strings.Join(Kinds[:], ", "))
		}
		if web == "" {
			_, prefix, _ := strings.Cut(key, "/")
			web = r.web(prefix)
		} else if err := CheckAPI(web); err != nil {
			return Location{}, err
		}
		path = rest
		l.Kind, l.Web = kind, strings.TrimRight(web, "/")
	} else if p, ok := public[r.host]; ok {
		l.Kind, l.Web = p.kind, "https://"+p.host
	} else {
		l.Web = r.web("")
	}
	u, err := url.Parse(l.Web)
	if err != nil || u.Host == "" {
		return Location{}, api.Errorf(api.KindInvalid, "the address of the forge at %q cannot be read", r.host)
	}
	l.Host = strings.ToLower(u.Host)
	l.API = apiURL(l.Kind, l.Web, l.Host)
	if err := checkPath(l.Kind, path); err != nil {
		return Location{}, err
	}
	l.Owner, l.Name = strings.Join(path[:len(path)-1], "/"), path[len(path)-1]
	return l, nil
}

// apiURL returns the URL of the API for the URL of the web server.
func apiURL(kind, web, host string) string {
	switch kind {
	case GitHub:
		if host == "github.com" {
			return "https://api.github.com/"
		}
		// GitHub Enterprise Cloud with data residency.
		if strings.HasSuffix(host, ".ghe.com") {
			return "https://api." + host + "/"
		}
		return web + "/api/v3/"
	case GitLab:
		return web + "/api/v4/"
	case Gitea:
		return web + "/api/v1/"
	}
	return ""
}

// CheckAPI validates the URL of a forge: https, or http for this machine, without user and
// query.
func CheckAPI(address string) error {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxRemote {
		return api.Errorf(api.KindInvalid, "invalid URL of the forge")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" || u.Hostname() == "" {
		return api.Errorf(api.KindInvalid, "the address of a forge must be https://HOST/PATH without user, query and fragment")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && loopback(u.Hostname()):
	default:
		return api.Errorf(api.KindInvalid, "the forge at %q would get the token without TLS", u.Host).
			WithHint("Use https; http is for this machine alone.")
	}
	return nil
}

// loopback reports whether a host is localhost or a loopback address. It does not resolve
// names.
func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && a.IsLoopback())
}

// remote is a parsed URL of a remote.
type remote struct {
	scheme string // https, http, or ssh for every other scheme
	host   string // lower case, IPv6 without brackets
	port   string
	path   []string
}

// web guesses the URL of the web server.
func (r remote) web(prefix string) string {
	scheme, host := "https", r.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.scheme != "ssh" {
		scheme = r.scheme
		if r.port != "" && !(scheme == "https" && r.port == "443") && !(scheme == "http" && r.port == "80") {
			host = net.JoinHostPort(r.host, r.port)
		}
	}
	if prefix != "" {
		host += "/" + prefix
	}
	return scheme + "://" + host
}

// match returns the longest matching key of hosts, and the rest of the path.
func match(r remote, hosts map[string]string) (key string, rest []string) {
	names := []string{r.host}
	if r.port != "" {
		names = append(names, net.JoinHostPort(r.host, r.port))
	}
	for k := range hosts {
		host, prefix, _ := strings.Cut(k, "/")
		if !slices.Contains(names, strings.ToLower(host)) {
			continue
		}
		left := r.path
		// A key's path is part of web URLs only, not of those for SSH.
		if prefix = strings.Trim(prefix, "/"); prefix != "" && r.scheme != "ssh" {
			parts := strings.Split(prefix, "/")
			if len(left) < len(parts) || !slices.Equal(left[:len(parts)], parts) {
				continue
			}
			left = left[len(parts):]
		}
		if len(k) > len(key) || len(k) == len(key) && k < key {
			key, rest = k, left
		}
	}
	return key, rest
}

func parseRemote(s string) (remote, error) {
	// The text may contain a password, so errors do not.
	bad := func(why string) (remote, error) {
		return remote{}, api.Errorf(api.KindInvalid, "the remote is no repository at a forge: %s", why).
			WithHint("Use https://HOST/OWNER/NAME.git or git@HOST:OWNER/NAME.git.")
	}
	if s == "" || len(s) > maxRemote || s != strings.TrimSpace(s) || s[0] == '-' || !printable(s) {
		return bad("it is empty, too long, begins with -, or holds spaces or control characters")
	}
	var r remote
	scheme, after, ok := strings.Cut(s, "://")
	if ok {
		switch scheme = strings.ToLower(scheme); scheme {
		case "https", "http":
			r.scheme = scheme
		case "ssh", "git+ssh", "ssh+git", "git":
			r.scheme = "ssh"
		default:
			return bad("its scheme is none of https, http, ssh and git")
		}
		u, err := url.Parse("x://" + after)
		if err != nil {
			return bad("it cannot be read as a URL")
		}
		if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
			return bad("it has a query or a fragment")
		}
		r.host, r.port = u.Hostname(), u.Port()
		s = u.EscapedPath()
	} else {
		host, path, ok := strings.Cut(s, ":")
		if i := strings.LastIndex(s, "]:"); i >= 0 {
			host, path = s[:i+1], s[i+2:]
		}
		if !ok || strings.ContainsAny(host, `/\`) {
			return bad("it is a path of a file system")
		}
		host = host[strings.LastIndex(host, "@")+1:]
		if len(host) == 1 {
			return bad("it is a path of a file system")
		}
		r.scheme, r.host = "ssh", strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		s = path
	}
	r.host = strings.ToLower(strings.TrimSuffix(r.host, "."))
	if !hostName(r.host) || strings.Trim(r.port, "0123456789") != "" || len(r.port) > 5 {
		return bad("its host is no host name")
	}
	s = strings.TrimSuffix(strings.Trim(s, "/"), ".git")
	r.path = strings.Split(s, "/")
	return r, nil
}

// hostName reports whether a string has only characters of DNS names and IPv6 addresses.
func hostName(h string) bool {
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Zone() == ""
	}
	return h != "" && len(h) <= 253 && h[0] != '-' && h[0] != '.' && !strings.Contains(h, "..") &&
		strings.Trim(h, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// checkPath validates the owner and name of a repository: no part may have a meaning in the
// path of a URL or in an API.
func checkPath(kind string, parts []string) error {
	bad := func(why string) error {
		return api.Errorf(api.KindInvalid, "%.200q is no repository: %s", strings.Join(parts, "/"), why)
	}
	switch n := len(parts); {
	case n < 2:
		return bad("it must be an owner and a name")
	case n > 2 && (kind == GitHub || kind == Gitea):
		return bad("it has more than an owner and a name")
	case n > 21:
		return bad("its groups are nested too deep")
	}
	for i, p := range parts {
		switch {
		case p == "", len(p) > 255:
			return bad("a part of it is empty or too long")
		case p == ".", p == "..", p == "-", p[0] == '-' && i < len(parts)-1:
			return bad("it holds ., .. or -")
		case strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-") != "":
			return bad("it holds other characters than letters, digits, and ._+-")
		}
	}
	return nil
}
