package git

import (
	"encoding/base64"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// maxURL bounds an address, in bytes.
const MaxURL = 4096

// Source is where a repository comes from or goes to.
type Source struct {
	// URL is an absolute path, file://, https://, ssh:// or user@host:path; http://
	// for a loopback address, or any where Config.Insecure says so. It holds no
	// password: that is what Auth is for.
	URL string
	// Auth is for https and http alone; nil asks without.
	Auth *Auth
	// Owners are user ids whose repositories may be read beside our own, where URL
	// is a path: a daemon that serves others knows who asks.
	Owners []uint32
}

// Auth is what a server takes as proof. It reaches git by its environment, for this
// one address, and is never stored, logged or in an error.
type Auth struct {
	Username string // "x-access-token" where empty, which GitHub wants and others take
	Token    string
}

// String keeps a token out of what is printed with %v.
func (a *Auth) String() string { return "[redacted]" }

// GoString keeps a token out of what is printed with %#v.
func (a *Auth) GoString() string { return a.String() }

func (a *Auth) Basic() string {
	name := a.Username
	if name == "" {
		name = "x-access-token"
	}
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + a.Token))
}

// ParseSource divides "URL@ref" as a person types it. The ref is what follows the
// first @ of the path that does not begin a component, so that neither user@host
// nor /@scope/ is taken for one; an @ that belongs to the path of a URL is written
// %40. Of a local path the longest part counts that is a directory, and what is one
// is a path, whatever it looks like. A path comes back absolute. Without a ref, ref
// is empty.
//
// It is KindInvalid what no [Source] can be, with a hint.
func ParseSource(s string) (address, ref string, err error) {
	address, ref, err = parseSource(s)
	if err != nil && api.HintOf(err) == "" {
		err = api.AsError(err).WithHint("name a directory, or https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH; @REF after it names a branch, a tag or a commit")
	}
	return address, ref, err
}

func parseSource(s string) (address, ref string, err error) {
	if err := checkPrintable(s); err != nil {
		return "", "", err
	}
	start, local := 0, false
	if scheme := strings.Index(s, "://"); scheme >= 0 {
		slash := strings.IndexByte(s[scheme+3:], '/')
		if slash < 0 {
			return "", "", api.Errorf(api.KindInvalid, "%q has no path", redactUser(s))
		}
		start = scheme + 3 + slash
		local = strings.EqualFold(s[:scheme], "file")
	} else if host, _, ok := SplitSCP(s); ok && !isDir(s) {
		start = len(host) + 1
	} else {
		local = true
	}
	address = s
	for _, at := range splits(s, start) {
		if local && isDir(address) {
			break
		}
		if address == s || local && isDir(s[:at]) {
			address, ref = s[:at], s[at+1:]
		}
		if !local || isDir(address) {
			break
		}
	}
	if ref == "" && address != s {
		return "", "", api.Errorf(api.KindInvalid, "%q ends with @ and names no branch, tag or commit", redactUser(s))
	}
	if ref != "" {
		if err := CheckRevision(ref); err != nil {
			return "", "", err
		}
	}
	if local && !strings.Contains(address, "://") {
		if address, err = filepath.Abs(address); err != nil {
			return "", "", api.Errorf(api.KindInvalid, "%s: %w", address, err)
		}
	}
	if _, err := ParseRemote(address, true); err != nil {
		return "", "", err
	}
	return address, ref, nil
}

// splits are the places of an @ that may divide a path from a ref.
func splits(s string, start int) []int {
	var at []int
	for i := start + 1; i < len(s); i++ {
		if s[i] == '@' && s[i-1] != '/' {
			at = append(at, i)
		}
	}
	return at
}

func isDir(p string) bool {
	if rest, ok := strings.CutPrefix(p, "file://"); ok {
		p = rest
	}
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// scp divides host:path, which is ssh. A colon after a slash is part of a path.
func SplitSCP(s string) (host, path string, ok bool) {
	if strings.HasPrefix(s, "[") {
		// [::1]:path has no user; git knows user@[::1]:path as well.
		return "", "", false
	}
	end := strings.IndexAny(s, "/:")
	if at := strings.Index(s, "@["); at >= 0 && (end < 0 || at < end) {
		if close := strings.Index(s, "]:"); close > at {
			return s[:close+1], s[close+2:], true
		}
	}
	if end <= 0 || s[end] != ':' {
		return "", "", false
	}
	return s[:end], s[end+1:], true
}

// printable refuses what no address may hold.
func checkPrintable(s string) error {
	switch {
	case s == "":
		return api.Errorf(api.KindInvalid, "no repository is named")
	case len(s) > MaxURL:
		return api.Errorf(api.KindInvalid, "the address of the repository is longer than %d bytes", MaxURL)
	case !utf8.ValidString(s):
		return api.Errorf(api.KindInvalid, "the address of the repository is not UTF-8")
	case s[0] == '-':
		return api.Errorf(api.KindInvalid, "the address of a repository does not begin with -")
	}
	for _, r := range s {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return api.Errorf(api.KindInvalid, "the address of the repository holds a control character")
		}
	}
	return nil
}

// remote is an address that was understood.
type Remote struct {
	URL    string // what git is given; for a path, the path
	Scheme string // https, http, ssh or file
	Key    string // the same for every spelling of the address
}

// parseRemote understands the address of a [Source].
func ParseRemote(s string, insecure bool) (Remote, error) {
	if err := checkPrintable(s); err != nil {
		return Remote{}, err
	}
	if filepath.IsAbs(s) {
		p := filepath.Clean(s)
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		return Remote{URL: p, Scheme: "file", Key: "file://" + p}, nil
	}
	if !strings.Contains(s, "://") {
		return parseSCP(s)
	}
	u, err := url.Parse(s)
	if err != nil {
		return Remote{}, api.Errorf(api.KindInvalid, "%q is not an address", redactUser(s))
	}
	shown := redactUser(s)
	if _, has := u.User.Password(); has {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: the address holds a password", shown).
			WithHint("give a token by the means of Hortus; an address is stored and shown")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || u.Opaque != "" {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: the address of a repository has no ? and no #", shown)
	}
	host := strings.ToLower(u.Hostname())
	switch u.Scheme {
	case "file":
		if host != "" && host != "localhost" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
			return Remote{}, api.Errorf(api.KindInvalid, "%q: file:// is followed by an absolute path", shown)
		}
		return ParseRemote(u.Path, insecure)
	case "http", "https":
		if u.User != nil {
			return Remote{}, api.Errorf(api.KindInvalid, "%q: the address holds a user name", shown).
				WithHint("leave it out, and give user name and token by the means of Hortus")
		}
		if u.Scheme == "http" && !insecure && !loopback(host) {
			return Remote{}, api.Errorf(api.KindDenied, "%q: http is not encrypted, and so allowed to this machine alone", shown).
				WithHint("use https://")
		}
	case "ssh":
		if u.User != nil && !IsName(u.User.Username()) {
			return Remote{}, api.Errorf(api.KindInvalid, "%q: that is no user name", shown)
		}
	default:
		return Remote{}, api.Errorf(api.KindInvalid, "%q: Hortus reads repositories from a path, file://, https://, ssh:// or user@host:path", shown)
	}
	if !IsName(strings.NewReplacer(":", "", "%", "").Replace(host)) {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: that is no host", shown)
	}
	if strings.Trim(u.Path, "/") == "" {
		return Remote{}, api.Errorf(api.KindInvalid, "%q has no path", shown)
	}
	if strings.ContainsFunc(u.Path, unicode.IsControl) {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: its path holds a control character", shown)
	}
	if u.Port() == map[string]string{"http": "80", "https": "443", "ssh": "22"}[u.Scheme] {
		if u.Host = host; strings.Contains(host, ":") {
			u.Host = "[" + host + "]"
		}
	}
	u.Host = strings.ToLower(u.Host)
	text := u.String()
	return Remote{URL: text, Scheme: u.Scheme, Key: strings.TrimRight(text, "/")}, nil
}

func parseSCP(s string) (Remote, error) {
	host, path, ok := SplitSCP(s)
	if !ok {
		return Remote{}, api.Errorf(api.KindInvalid, "%q is neither an address nor an absolute path", redactUser(s))
	}
	user, name, has := strings.Cut(host, "@")
	if !has {
		user, name = "", host
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if bare != name {
		bare = strings.ReplaceAll(bare, ":", "")
	}
	if !IsName(bare) || has && !IsName(user) {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: that is no host", s)
	}
	// host::path would be a remote helper's address, and a path that begins with -
	// an option of the other side.
	if path == "" || path[0] == ':' || path[0] == '-' {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: no path follows the host", s)
	}
	return Remote{URL: s, Scheme: "ssh", Key: "ssh:" + strings.TrimRight(s, "/")}, nil
}

// word is what a host or user name consists of. It never begins with a dash.
func IsName(s string) bool {
	if s == "" || s[0] == '-' {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' || r == '+') {
			return false
		}
	}
	return true
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// WithoutSecret is an address as it may be stored: without a password and, over
// http, without the user name, which may be a token.
func StripCredentials(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	if at < 0 || strings.EqualFold(scheme, "ssh") && !strings.Contains(rest[:at], ":") {
		return address
	}
	return scheme + "://" + rest[at+1:]
}

// withoutUser is an address as an error may show it.
func redactUser(s string) string {
	scheme := strings.Index(s, "://")
	if scheme < 0 {
		return s
	}
	rest := s[scheme+3:]
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	// A password may itself hold a slash or an @; what is before the last @ goes.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && (at < end || strings.IndexByte(rest[:at], ':') >= 0) {
		return s[:scheme+3] + "[redacted]@" + rest[at+1:]
	}
	return s
}

// secrets are the shapes in which a token may come back.
func (a *Auth) Secrets() []string {
	if a == nil {
		return nil
	}
	return []string{a.Basic(), a.Token, url.QueryEscape(a.Token), url.PathEscape(a.Token), base64.StdEncoding.EncodeToString([]byte(a.Token))}
}

// Public is an address as people may see it: without a user and what belongs to
// one, and in printable characters.
func DisplayAddress(address string) string { return Sanitize(redactUser(address), 300) }
