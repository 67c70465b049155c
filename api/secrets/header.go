package secrets

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
)

// Bounds on header rules and metadata. Sizes are in bytes.
const (
	MaxHeaderRules   = 32      // of a policy
	MaxRuleHeaders   = 20      // of a rule
	MaxHeaderName    = 64      // of a header
	MaxHeaderValue   = 2 << 10 // of a header, as it is written in the rule
	MaxMetadata      = 32      // entries
	MaxMetadataKey   = 128
	MaxMetadataValue = 1 << 10
	MaxMetadataBytes = 8 << 10 // all of it
)

// Part is a part of a header's value: text, or the name of a secret.
type Part struct{ Text, Secret string }

const (
	openSecret = "${secret:"
	// What begins so is a reference that is written in another way, not text.
	nearSecret, otherReference = "${secret", "${e2b."
)

// Template reads the value of a header. Its errors are api.KindInvalid.
func Template(value string) (out []Part, err error) {
	for rest := value; rest != ""; {
		text, after, found := strings.Cut(rest, openSecret)
		if strings.Contains(text, nearSecret) || strings.Contains(text, otherReference) {
			return nil, api.Errorf(api.KindInvalid, "it has a reference that is not known").WithHint("a secret is written as ${secret:NAME}")
		}
		if text != "" {
			out = append(out, Part{Text: text})
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || !api.ValidSecretName(name) {
			return nil, api.Errorf(api.KindInvalid, "it has a reference without the name of a secret").WithHint("a secret is written as ${secret:NAME}")
		}
		out, rest = append(out, Part{Secret: name}), behind
	}
	return out, nil
}

// Named returns the names of the secrets in a rule, sorted, each once. A value that is malformed
// has none.
func Named(r api.HeaderRule) (names []string) {
	for _, value := range r.Headers {
		parts, err := Template(value)
		if err != nil {
			continue
		}
		for _, p := range parts {
			if p.Secret != "" {
				names = append(names, p.Secret)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheckHeaders refuses header rules that are malformed or out of bounds, and two for the same host
// and port: api.KindInvalid.
func CheckHeaders(rules []api.HeaderRule) error {
	if len(rules) > MaxHeaderRules {
		return api.Errorf(api.KindInvalid, "%d header rules; the maximum is %d", len(rules), MaxHeaderRules)
	}
	seen, named := map[string]bool{}, map[string]bool{}
	for _, r := range rules {
		for _, name := range Named(r) {
			named[name] = true
		}
		r = HeaderDefaults(r)
		at := r.Host + ":" + strconv.Itoa(r.Port)
		if err := checkHeaderRule(r); err != nil {
			return api.Errorf(api.KindInvalid, "header rule for %.80q: %w", r.Host, err).WithHint("%s", api.HintOf(err))
		}
		if seen[at] {
			return api.Errorf(api.KindInvalid, "two header rules are for %s", at).WithHint("put their headers into one rule")
		}
		seen[at] = true
	}
	if len(named) > api.MaxSecretGrants {
		return api.Errorf(api.KindInvalid, "the header rules name %d secrets; the maximum for a sandbox is %d", len(named), api.MaxSecretGrants)
	}
	return nil
}

// HeaderDefaults returns a rule with its host in lower case and its port.
func HeaderDefaults(r api.HeaderRule) api.HeaderRule {
	r.Host = strings.ToLower(strings.TrimSuffix(r.Host, "."))
	if r.Port == 0 {
		r.Port = 443
	}
	return r
}

func checkHeaderRule(r api.HeaderRule) error {
	name := strings.TrimPrefix(r.Host, "*.")
	_, err := netip.ParseAddr(name)
	switch {
	case name == "" || len(r.Host) > api.MaxEgressHost || strings.ContainsAny(name, "*/:@[] \t\x00") || !utf8.ValidString(name):
		return api.Errorf(api.KindInvalid, "the host is not a name").WithHint(`for example api.example.org, or *.example.org for the names below example.org`)
	case err == nil:
		return api.Errorf(api.KindInvalid, "the host is an address; a name is needed, because a certificate is checked for it")
	case r.Port < 1 || r.Port > 65535:
		return api.Errorf(api.KindInvalid, "port %d is out of range", r.Port)
	case len(r.Headers) > MaxRuleHeaders:
		return api.Errorf(api.KindInvalid, "%d headers; the maximum is %d", len(r.Headers), MaxRuleHeaders)
	}
	seen := map[string]bool{}
	for header, value := range r.Headers {
		if err := checkHeader(header, value); err != nil {
			return api.Errorf(api.KindInvalid, "header %.80q: %w", header, err).WithHint("%s", api.HintOf(err))
		}
		if same := SameHeader(header); seen[same] {
			return api.Errorf(api.KindInvalid, "header %.80q is there twice: case, - and _ make no difference", header)
		} else {
			seen[same] = true
		}
	}
	return nil
}

// SameHeader returns what the names of headers have in common that servers may take for the same.
func SameHeader(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// reserved are headers that belong to the connection or the body, or that say in which form the
// answer is sent.
var reserved = []string{
	"host", "connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
	"proxy-authorization", "proxy-authenticate", "content-length", "content-encoding", "expect", "range", "if-range", "accept-encoding",
}

func checkHeader(name, value string) error {
	switch {
	case name == "" || len(name) > MaxHeaderName || strings.IndexFunc(name, func(r rune) bool { return !tokenRune(r) }) >= 0:
		return api.Errorf(api.KindInvalid, "the name is not that of a header of 1 to %d bytes", MaxHeaderName)
	case slices.Contains(reserved, SameHeader(name)) || api.OverridesRequest(name) || strings.HasPrefix(SameHeader(name), "sec-websocket-"):
		return api.Errorf(api.KindInvalid, "a rule cannot set this header")
	case value == "":
		return api.Errorf(api.KindInvalid, "the value is empty")
	case len(value) > MaxHeaderValue:
		return api.Errorf(api.KindInvalid, "the value has %d bytes; the maximum is %d", len(value), MaxHeaderValue)
	case strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 || !utf8.ValidString(value):
		return api.Errorf(api.KindInvalid, "the value has a line break or another control character, or is not UTF-8")
	case strings.TrimSpace(value) != value:
		return api.Errorf(api.KindInvalid, "the value begins or ends with a space")
	}
	_, err := Template(value)
	return err
}

// tokenRune reports whether a character may be in the name of a header (RFC 9110, 5.6.2).
func tokenRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// checkMetadata refuses metadata that is out of bounds.
func checkMetadata(m map[string]string) error {
	if len(m) > MaxMetadata {
		return api.Errorf(api.KindInvalid, "metadata has %d entries; the maximum is %d", len(m), MaxMetadata)
	}
	total := 0
	for key, value := range m {
		total += len(key) + len(value)
		switch {
		case key == "" || len(key) > MaxMetadataKey || !utf8.ValidString(key):
			return api.Errorf(api.KindInvalid, "metadata: the key %.40q has %d bytes or is not UTF-8; it must have 1 to %d", key, len(key), MaxMetadataKey)
		case len(value) > MaxMetadataValue || !utf8.ValidString(value):
			return api.Errorf(api.KindInvalid, "metadata: the value of %.40q has %d bytes or is not UTF-8; the maximum is %d", key, len(value), MaxMetadataValue)
		}
	}
	if total > MaxMetadataBytes {
		return api.Errorf(api.KindInvalid, "metadata has %d bytes; the maximum is %d", total, MaxMetadataBytes)
	}
	return nil
}
