package e2b

import (
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// pair is one thing that a sandbox's metadata must hold.
type pair struct{ key, value string }

// maxQuery bounds a filter by metadata, in bytes.
const maxQuery = 16 << 10

// parseMetadata reads the filter by metadata of a list, as it is once the address was
// decoded. It is a query of its own, and in that one keys and values are escaped again:
// the SDKs encode each of them, then the pairs, then the address.
func parseMetadata(raw string) ([]pair, error) {
	bad := func(why string) ([]pair, error) {
		return nil, api.Errorf(api.KindInvalid, `parameter "metadata" is not a list of escaped pairs: %.100s`, why)
	}
	if len(raw) > maxQuery {
		return bad("too long")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return bad(err.Error())
	}
	var out []pair
	for k, vs := range values {
		key, err := url.PathUnescape(k)
		if err != nil {
			return bad(err.Error())
		}
		for _, v := range vs {
			value, err := url.PathUnescape(v)
			if err != nil {
				return bad(err.Error())
			}
			if out = append(out, pair{key, value}); len(out) > api.MaxLabels {
				return bad("too many entries")
			}
		}
	}
	return out, nil
}

// hasLabels reports whether metadata has all of the pairs.
func hasLabels(labels map[string]string, want []pair) bool {
	for _, p := range want {
		if v, ok := labels[p.key]; !ok || v != p.value {
			return false
		}
	}
	return true
}

// checkParameters checks a request's query, in which a name that nobody knows is an error,
// and so is one that is there twice, unless it may be.
func checkParameters(query string, known []string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return api.Errorf(api.KindInvalid, "the query string is malformed: %.100s", err)
	}
next:
	for name, vs := range q {
		for _, k := range known {
			plain, several := strings.CutSuffix(k, "*")
			if name != plain {
				continue
			}
			if len(vs) > 1 && !several {
				return api.Errorf(api.KindInvalid, "parameter %q is set %d times", name, len(vs))
			}
			continue next
		}
		return api.Errorf(api.KindInvalid, "unknown parameter %.60q", name)
	}
	return nil
}

// number reads a whole number between two bounds; byDefault if there is none.
func number(q url.Values, name string, byDefault, least, most int64) (int64, error) {
	raw := q.Get(name)
	if raw == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || n < least || n > most {
		return 0, api.Errorf(api.KindInvalid, "parameter %q: %.40q is not a number between %d and %d", name, raw, least, most)
	}
	return n, nil
}

// words reads a list that is separated by commas, or repeated, or both.
func words(q url.Values, name string) []string {
	var out []string
	for _, v := range q[name] {
		for w := range strings.SplitSeq(v, ",") {
			if w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}
