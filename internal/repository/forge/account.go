package forge

import (
	"io"
	"os"
	"runtime"
	"strings"

	"hortus.dev/api"
)

// Account is a token, or the file that holds it, for one host: it is never sent
// to another.
type Account struct {
	// Kind and Host are those of a [Location]. An empty host is the kind's public
	// one.
	Kind, Host string
	// Web, when set, is the address of the forge's web server, for remotes that do
	// not tell it.
	Web string
	// Token goes before File.
	Token, File string
}

// publicHosts are the hosts that a token without a host is for.
var publicHosts = map[string]string{GitHub: "github.com", GitLab: "gitlab.com", Gitea: "gitea.com"}

// Accounts reads the settings of the environment. For each kind, KIND being its
// name in capitals:
//
//	HORTUS_KIND_TOKEN       the token
//	HORTUS_KIND_TOKEN_FILE  or the file that holds it
//	HORTUS_KIND_HOST        the host that it is for; the public one when not set
//	HORTUS_KIND_URL         the forge's web address, where the host is not enough
//	KIND_TOKEN, GH_TOKEN    what other programs read; for the public host alone
func Accounts(getenv func(string) string) []Account {
	var all []Account
	for _, kind := range Kinds {
		upper := strings.ToUpper(kind)
		prefix := "HORTUS_" + upper + "_"
		a := Account{
			Kind: kind, Host: strings.ToLower(getenv(prefix + "HOST")), Web: getenv(prefix + "URL"),
			Token: getenv(prefix + "TOKEN"), File: getenv(prefix + "TOKEN_FILE"),
		}
		if a.Host != "" || a.Token != "" || a.File != "" {
			all = append(all, a)
		}
		if a.Host == "" && (a.Token != "" || a.File != "") {
			continue
		}
		names := []string{upper + "_TOKEN"}
		if kind == GitHub {
			names = append(names, "GH_TOKEN")
		}
		for _, name := range names {
			if token := getenv(name); token != "" {
				all = append(all, Account{Kind: kind, Token: token})
				break
			}
		}
	}
	return all
}

// Hosts is what [Locate] needs to know of the accounts.
func Hosts(accounts []Account) map[string]string {
	hosts := map[string]string{}
	for _, a := range accounts {
		if a.Host == "" {
			continue
		}
		hosts[a.Host] = a.Kind
		if a.Web != "" {
			hosts[a.Host] += "+" + a.Web
		}
	}
	return hosts
}

// Find gives the account of a location: the one of its kind and its very host.
func Find(accounts []Account, l Location) (Account, error) {
	for _, a := range accounts {
		host, _, _ := strings.Cut(a.Host, "/")
		if host == "" {
			host = publicHosts[a.Kind]
		}
		if a.Kind == l.Kind && (host == l.Host || a.Web != "" && strings.TrimRight(a.Web, "/") == l.Web) {
			return a, nil
		}
	}
	kind := strings.ToUpper(l.Kind)
	hint := "Set HORTUS_" + kind + "_TOKEN or HORTUS_" + kind + "_TOKEN_FILE"
	if publicHosts[l.Kind] != l.Host {
		hint += ", and HORTUS_" + kind + "_HOST=" + l.Host
	}
	return Account{}, api.Errorf(api.KindUnauthenticated, "there is no token for %s", l.Host).WithHint("%s.", hint)
}

// maxToken bounds a token, in bytes.
const maxToken = 4096

// Secret reads the token. A file must be regular and for its owner alone.
func (a Account) Secret() (string, error) {
	if a.Token != "" {
		return a.Token, CheckToken(a.Token)
	}
	info, err := os.Stat(a.File)
	if err != nil {
		return "", api.Errorf(api.KindUnauthenticated, "the file of the token for %s cannot be read: %w", a.Kind, err)
	}
	// Windows has no such modes.
	open := info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows"
	if !info.Mode().IsRegular() || open {
		return "", api.Errorf(api.KindDenied, "%s, the file of a token, is no file that its owner alone can read", a.File).
			WithHint("chmod 600 %s", a.File)
	}
	f, err := os.Open(a.File)
	if err != nil {
		return "", api.Errorf(api.KindUnauthenticated, "the file of the token for %s cannot be read: %w", a.Kind, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", api.Errorf(api.KindUnauthenticated, "the file of the token for %s cannot be read: %w", a.Kind, err)
	}
	token := strings.TrimSpace(string(b))
	return token, CheckToken(token)
}

// CheckToken says what is wrong with a token, without repeating it.
func CheckToken(token string) error {
	if token == "" {
		return api.Errorf(api.KindUnauthenticated, "the token is empty")
	}
	if len(token) > maxToken || strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return api.Errorf(api.KindInvalid, "the token is no token: it is longer than %d bytes, or holds spaces or other characters than ASCII", maxToken)
	}
	return nil
}
