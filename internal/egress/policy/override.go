package policy

import (
	"net/url"
	"strings"

	"hortus.dev/api"
)

// Override returns what in a request makes some servers read another method or path than those of its request
// line, or "". A request that rules with methods or paths decide about must have nothing of this kind.
func Override(header map[string][]string, query string) string {
	for name := range header {
		if api.OverridesRequest(name) {
			return "the header " + name
		}
	}
	for part := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(key); err == nil {
			key = plain
		}
		switch {
		case strings.EqualFold(key, "_method"), strings.EqualFold(key, "$httpmethod"), api.OverridesRequest(key):
			return "the query parameter " + key
		}
	}
	return ""
}
