package flags

import (
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Headers turns values such as "api.example.org X-Key: VALUE" into header rules, one for each host and
// port, in the order of their first values.
func Headers(flag string, values []string) (out []api.HeaderRule, err error) {
	at := map[string]int{}
	for _, v := range values {
		r, name, value, err := header(v)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err).WithHint("for example %s 'api.example.org Authorization: Bearer ${secret:NAME}'", flag)
		}
		key := r.Host + ":" + strconv.Itoa(r.Port)
		i, known := at[key]
		if !known {
			i, at[key] = len(out), len(out)
			r.Headers = map[string]string{}
			out = append(out, r)
		}
		if _, twice := out[i].Headers[name]; twice {
			return nil, api.Errorf(api.KindInvalid, "%s: the header %.80q for %s is there twice", flag, name, key)
		}
		out[i].Headers[name] = value
	}
	if err := secrets.CheckHeaders(out); err != nil {
		return nil, api.Errorf(api.KindInvalid, "%s: %w", flag, err).WithHint("%s", api.HintOf(err))
	}
	return out, nil
}

// header reads one value. The value of the header is not in its errors.
func header(text string) (r api.HeaderRule, name, value string, err error) {
	host, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
	name, value, colon := strings.Cut(strings.TrimSpace(rest), ":")
	if !ok || !colon || name == "" {
		return r, "", "", api.Errorf(api.KindInvalid, "a value has the form HOST NAME: VALUE")
	}
	host = strings.TrimPrefix(host, "https://")
	if strings.HasPrefix(host, "http://") {
		return r, "", "", api.Errorf(api.KindInvalid, "headers are set in HTTPS requests only")
	}
	host, port, ok := strings.Cut(host, ":")
	if ok {
		if r.Port, err = strconv.Atoi(port); err != nil {
			return r, "", "", api.Errorf(api.KindInvalid, "%.20q is not a port", port)
		}
	}
	r.Host = host
	return secrets.HeaderDefaults(r), name, strings.TrimSpace(value), nil
}
