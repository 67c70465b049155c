package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// maxEntries bounds the settings of one file.
const maxEntries = 1000

// Forge is what is set for one host that repositories are pushed to:
//
//	[forge."git.example.com"]
//	kind       = "gitlab"
//	token-file = "/etc/hortus/gitlab-token"
//	token-env  = "CORP_GITLAB_TOKEN"   # instead of a file
//	token-secret = "gitlab-token"      # instead of both
//	url        = "https://git.example.com:8443"
type Forge struct {
	// Host is a name or an address in lower case, with its port where it is not
	// that of the scheme.
	Host string
	// Kind is one of [ForgeKinds].
	Kind string
	// URL is the address of the forge's web server, for remotes that do not tell
	// it; mostly empty.
	URL string
	// TokenFile holds the token; TokenEnv names the variable that does, TokenSecret
	// the secret of the operator. At most one of them is set.
	TokenFile, TokenEnv, TokenSecret string
}

// Policy is what a delivery may do. What is zero or empty is as in the default policy
// of internal/repository/forge/policy.
type Policy struct {
	// Branch is the pattern of branches that may be pushed, Protected those of
	// branches that may not.
	Branch    string
	Protected []string
	MaxFiles  int
	MaxLines  int
	// Forbidden are patterns of paths that may not change, Allow those of exceptions
	// from them.
	Forbidden, Allow []string
	// Targets are patterns of the branches that merge requests may aim at; empty for all. Draft has all of them be drafts.
	Targets []string
	Draft   bool
	// OffLimits are the globs of files that no sandbox of a task on a repository has. See
	// api.FilePolicy.
	OffLimits []string
}

// ForgeKinds lists the forges that are known.
func ForgeKinds() []string { return []string{"github", "gitlab", "gitea"} }

// forgeSettings are the settings of one host.
func forgeSettings() []Setting {
	return []Setting{
		{Key: "kind", Kind: Choice, Allowed: ForgeKinds(), Help: "kind of the forge on the host"},
		{Key: "token-env", Kind: Text, Help: "environment variable with the token for the host"},
		{Key: "token-file", Kind: Path, Help: "file with the token for the host"},
		{Key: "token-secret", Kind: Secret, Help: "secret with the token for the host"},
		{Key: "url", Kind: Text, Help: "URL of its web server, if remotes do not contain it"},
	}
}

// isForgeTable reports whether settings of a host lie below a name, or hosts do.
func isForgeTable(parts []string) bool {
	return len(parts) > 0 && len(parts) <= 2 && parts[0] == "forge"
}

// forgeSetting returns the setting forge.HOST.NAME. Its key is written with the host
// in quotes, since hosts have dots.
func forgeSetting(parts []string) (Setting, bool) {
	if len(parts) != 3 || parts[0] != "forge" {
		return Setting{}, false
	}
	for _, s := range forgeSettings() {
		if s.Key == parts[2] {
			s.Key = "forge." + strconv.Quote(parts[1]) + "." + s.Key
			return s, true
		}
	}
	return Setting{}, false
}

// checkHost refuses what is no host with an optional port.
func checkHost(host string) *api.Error {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return api.Errorf(api.KindInvalid, "%.80q has no valid port", host).WithHint(`for example [forge."git.example.com:8443"]`)
		}
		name = h
	}
	ok := name != "" && len(name) <= 253 && name == strings.ToLower(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(".-:", r))
	})
	if !ok || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return api.Errorf(api.KindInvalid, "%.80q is not a host name in lower case", host).WithHint(`for example [forge."git.example.com"]`)
	}
	return nil
}

// forgeValues returns what a file sets for hosts, by their names.
func forgeValues(path string, lines map[string]entry) (out []Value) {
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		host, name, ok := splitForge(key)
		if !ok {
			continue
		}
		if s, ok := forgeSetting([]string{"forge", host, name}); ok {
			out = append(out, Value{Setting: s, Text: lines[key].text, Origin: Origin{Kind: FromFile, Path: path, Line: lines[key].line}})
		}
	}
	return out
}

// splitForge reads a key as forgeSetting writes it.
func splitForge(key string) (host, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, "forge.")
	if !ok {
		return "", "", false
	}
	i := strings.LastIndexByte(rest, '.')
	if i < 0 {
		return "", "", false
	}
	host, err := strconv.Unquote(rest[:i])
	return host, rest[i+1:], err == nil
}

// Forges returns the hosts that are set, by their names. KindInvalid for one without
// a kind, or with a token in two places, which Load refuses already.
func (c *Config) Forges() ([]Forge, error) {
	var out []Forge
	for _, v := range c.forges {
		host, name, _ := splitForge(v.Setting.Key)
		if len(out) == 0 || out[len(out)-1].Host != host {
			out = append(out, Forge{Host: host})
		}
		f := &out[len(out)-1]
		switch name {
		case "kind":
			f.Kind = v.Text
		case "token-env":
			f.TokenEnv = v.Text
		case "token-file":
			f.TokenFile = v.Text
		case "token-secret":
			f.TokenSecret = v.Text
		case "url":
			f.URL = v.Text
		}
		var set []string
		for _, s := range []struct{ name, text string }{{"token-env", f.TokenEnv}, {"token-file", f.TokenFile}, {"token-secret", f.TokenSecret}} {
			if s.text != "" {
				set = append(set, "a "+s.name)
			}
		}
		if len(set) > 1 {
			return nil, api.Errorf(api.KindInvalid, "%s: %s has both %s", place(v.Origin.Path, v.Origin.Line), host, strings.Join(set, " and ")).
				WithHint("keep one of them")
		}
	}
	for _, f := range out {
		if f.Kind == "" {
			return nil, api.Errorf(api.KindInvalid, "%s: [forge.%q] has no kind", c.Path, f.Host).
				WithHint("add kind = one of %s", strings.Join(ForgeKinds(), ", "))
		}
	}
	return out, nil
}

// KeySecrets returns the names of the secrets with the keys of hosted models, by vendor.
func (c *Config) KeySecrets() map[string]string {
	out := map[string]string{}
	for _, vendor := range []string{"anthropic", "openai"} {
		if name := c.Get("model." + vendor + "-key-secret").Text; name != "" {
			out[vendor] = name
		}
	}
	return out
}

// Policy returns what a delivery may do.
func (c *Config) Policy() Policy {
	number := func(key string) int {
		n, _ := strconv.Atoi(c.Get(key).Text) // it was checked; empty is 0
		return n
	}
	return Policy{
		Branch: c.Get("policy.branch").Text, Protected: splitList(c.Get("policy.protected").Text),
		MaxFiles: number("policy.max-files"), MaxLines: number("policy.max-lines"),
		Forbidden: splitList(c.Get("policy.forbidden").Text), Allow: splitList(c.Get("policy.allow").Text),
		Targets: splitList(c.Get("policy.targets").Text), Draft: c.Get("policy.draft").Text == "true",
		OffLimits: splitList(c.Get("policy.off-limits").Text),
	}
}

// splitList reads the text of a [List].
func splitList(text string) (out []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// joinList writes a list of TOML as the text of a [List].
func joinList(list []any) (string, *api.Error) {
	items := make([]string, 0, len(list))
	for _, v := range list {
		s, ok := v.(string)
		if !ok || strings.TrimSpace(s) == "" || strings.Contains(s, ",") {
			return "", api.Errorf(api.KindInvalid, "%.80s is not allowed in this list", fmt.Sprint(v)).WithHint(`write strings without commas: ["...", "..."]`)
		}
		items = append(items, s)
	}
	return strings.Join(items, ", "), nil
}
