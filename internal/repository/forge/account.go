package forge

import (
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"hortus.dev/api"
)

// Account is a token, or the file that contains it, for one host. It is never sent to
// another host.
type Account struct {
	// Kind and Host are those of a [Location]. Host defaults to the kind's public host.
	Kind, Host string
	// Web is the URL of the forge's web server, if it does not follow from the remote.
	Web string
	// Token takes precedence over File, and that over Named, the name of a secret.
	Token, File, Named string
}

// publicHosts are the default hosts of tokens.
var publicHosts = map[string]string{GitHub: "github.com", GitLab: "gitlab.com", Gitea: "gitea.com"}

// Server returns the host of the account's forge.
func (a Account) Server() string { return cmp.Or(a.Host, publicHosts[a.Kind]) }

// PublicHosts returns the hosts of the public forges, sorted.
func PublicHosts() []string { return slices.Sorted(maps.Values(publicHosts)) }

// Accounts reads accounts from environment variables. KIND is the name of a kind in
// capitals:
//
//	HORTUS_KIND_TOKEN       the token
//	HORTUS_KIND_TOKEN_FILE  or the file that contains it
//	HORTUS_KIND_HOST        its host (default the public one)
//	HORTUS_KIND_URL         the URL of the forge, if the host is not enough
//	KIND_TOKEN, GH_TOKEN    variables of other programs; for the public host only
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

// Hosts returns the hosts of the accounts for [Locate].
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

// Find returns the account for a location: the one with its kind and exactly its host.
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

// maxToken is the maximum length of a token, in bytes.
const maxToken = 4096

// Secret reads the token. A file must be regular and readable by its owner only. key returns the
// value of a secret by its name.
func (a Account) Secret(ctx context.Context, key func(ctx context.Context, name string) (string, error)) (string, error) {
	if a.Token != "" {
		return a.Token, CheckToken(a.Token)
	}
	if a.File == "" && a.Named != "" {
		token, err := key(ctx, a.Named)
		if err == nil {
			err = CheckToken(token)
		}
		if err != nil {
			return "", api.Errorf(api.KindOf(err), "the token for %s from secret %s: %w", a.Host, a.Named, err).
				WithHint("%s", cmp.Or(api.HintOf(err), "set it again: hortus secret set "+a.Named+" --daemon"))
		}
		return token, nil
	}
	info, err := os.Stat(a.File)
	if err != nil {
		return "", api.Errorf(api.KindUnauthenticated, "the file of the token for %s cannot be read: %w", a.Kind, err)
	}
	// Windows does not have these modes.
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

// CheckToken validates a token. The error does not contain it.
func CheckToken(token string) error {
	if token == "" {
		return api.Errorf(api.KindUnauthenticated, "the token is empty")
	}
	if len(token) > maxToken || strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return api.Errorf(api.KindInvalid, "the token is no token: it is longer than %d bytes, or holds spaces or other characters than ASCII", maxToken)
	}
	return nil
}
