package git

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// MaxURL is the maximum length of an address, in bytes.
const MaxURL = 4096

// Source is a repository to fetch from or push to.
type Source struct {
	// URL is an absolute path, file://, https://, ssh:// or user@host:path. http:// is
	// allowed for loopback addresses, and for others with the cache's Insecure. It has no
	// password; use Auth.
	URL string
	// Auth are the credentials for https and http; nil for none.
	Auth *Auth
	// Owners are the ids of further users whose repositories may be read if URL is a
	// path, for example the client of a daemon.
	Owners []uint32
}

// Auth are the credentials for a server. Git gets them in its environment, for this address
// only. They are never stored, logged or part of an error.
type Auth struct {
	Username string // default "x-access-token", which GitHub needs and others accept
	Token    string
}

// String redacts the token for %v.
func (a *Auth) String() string { return "[redacted]" }

// GoString redacts the token for %#v.
func (a *Auth) GoString() string { return a.String() }

func (a *Auth) Basic() string {
	name := a.Username
	name = cmp.Or(name, "x-access-token")
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + a.Token))
}

// ParseSource splits "URL@ref". The ref follows the first @ of the path that does not begin
// a component, so user@host and /@scope/ have none. Write %40 for an @ in the path of a URL.
// A string that begins with the path of an existing directory is a local path, the longest
// one; it is returned absolute. ref may be empty.
//
// KindInvalid, with a hint, for a string that cannot be a [Source].
func ParseSource(s string) (address, ref string, err error) {
	address, ref, err = parseSource(s)
	if err != nil && api.HintOf(err) == "" {
		err = api.AsError(err).WithHint("give a directory, https://HOST/PATH, ssh://HOST/PATH or USER@HOST:PATH, optionally followed by @ and a branch, tag or commit")
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
		return "", "", api.Errorf(api.KindInvalid, "%q ends with @: the branch, tag or commit is missing", redactUser(s))
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

// splits returns the positions of each @ that may separate a path from a ref.
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

// SplitSCP splits host:path, an address for ssh. A colon after a slash is part of a path.
func SplitSCP(s string) (host, path string, ok bool) {
	if strings.HasPrefix(s, "[") {
		// Git accepts [::1]:path and user@[::1]:path.
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

// checkPrintable returns KindInvalid for characters that no address may contain.
func checkPrintable(s string) error {
	switch {
	case s == "":
		return api.Errorf(api.KindInvalid, "the repository is missing")
	case len(s) > MaxURL:
		return api.Errorf(api.KindInvalid, "the address of the repository is longer than %d bytes", MaxURL)
	case !utf8.ValidString(s):
		return api.Errorf(api.KindInvalid, "the address of the repository is not UTF-8")
	case s[0] == '-':
		return api.Errorf(api.KindInvalid, "the address of a repository must not begin with -")
	}
	for _, r := range s {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return api.Errorf(api.KindInvalid, "the address of the repository contains a control character")
		}
	}
	return nil
}

// Remote is a parsed address.
type Remote struct {
	URL    string // address for git; the path of a file:// URL
	Scheme string // https, http, ssh or file
	Key    string // equal for all spellings of the address
}

// BranchKey is the key of a branch of the remote, the SHA-256 of both in hex. It is equal for
// all spellings of the address. Branch "" stands for what the remote's HEAD names.
func (r Remote) BranchKey(branch string) string {
	sum := sha256.Sum256([]byte(r.Key + "\x00" + branch))
	return hex.EncodeToString(sum[:])
}

// ParseRemote parses the URL of a [Source].
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
		return Remote{}, api.Errorf(api.KindInvalid, "%q: the address contains a password", shown).
			WithHint("configure a token instead; the address is stored and shown")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || u.Opaque != "" {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: the address of a repository must not contain ? or #", shown)
	}
	host := strings.ToLower(u.Hostname())
	switch u.Scheme {
	case "file":
		if host != "" && host != "localhost" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
			return Remote{}, api.Errorf(api.KindInvalid, "%q: file:// must be followed by an absolute path", shown)
		}
		return ParseRemote(u.Path, insecure)
	case "http", "https":
		if u.User != nil {
			return Remote{}, api.Errorf(api.KindInvalid, "%q: the address contains a user name", shown).
				WithHint("leave it out, and give user name and token by the means of Hortus")
		}
		if u.Scheme == "http" && !insecure && !loopback(host) {
			return Remote{}, api.Errorf(api.KindDenied, "%q: http is not encrypted and allowed for this machine only", shown).
				WithHint("use https://")
		}
	case "ssh":
		if u.User != nil && !IsName(u.User.Username()) {
			return Remote{}, api.Errorf(api.KindInvalid, "%q: invalid user name", shown)
		}
	default:
		return Remote{}, api.Errorf(api.KindInvalid, "%q: unsupported address; use a path, file://, https://, ssh:// or user@host:path", shown)
	}
	if !IsName(strings.NewReplacer(":", "", "%", "").Replace(host)) {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: invalid host", shown)
	}
	if strings.Trim(u.Path, "/") == "" {
		return Remote{}, api.Errorf(api.KindInvalid, "%q has no path", shown)
	}
	if strings.ContainsFunc(u.Path, unicode.IsControl) {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: the path contains a control character", shown)
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
		return Remote{}, api.Errorf(api.KindInvalid, "%q: invalid host", s)
	}
	// host::path is the address of a remote helper, and the other side could take a path
	// that begins with - for an option.
	if path == "" || path[0] == ':' || path[0] == '-' {
		return Remote{}, api.Errorf(api.KindInvalid, "%q: the path is missing after the host", s)
	}
	return Remote{URL: s, Scheme: "ssh", Key: "ssh:" + strings.TrimRight(s, "/")}, nil
}

// IsName reports whether s has only characters of host and user names. It must not begin
// with a dash.
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

// StripCredentials returns an address without its password and, for http, without the user
// name, which may be a token. The result may be stored.
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

// redactUser redacts the user and password of an address, for errors.
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
	// A password may contain a slash or an @, so remove everything before the last @.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && (at < end || strings.IndexByte(rest[:at], ':') >= 0) {
		return s[:scheme+3] + "[redacted]@" + rest[at+1:]
	}
	return s
}

// Secrets returns the forms in which the token may be printed.
func (a *Auth) Secrets() []string {
	if a == nil {
		return nil
	}
	return []string{a.Basic(), a.Token, url.QueryEscape(a.Token), url.PathEscape(a.Token), base64.StdEncoding.EncodeToString([]byte(a.Token))}
}

// DisplayAddress returns an address for people: user and password redacted, printable.
func DisplayAddress(address string) string { return Sanitize(redactUser(address), 300) }
