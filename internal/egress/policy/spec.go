package policy

import (
	"net/netip"
	"slices"
	"strings"

	"hortus.dev/api"
)

// Words with a meaning of their own. A host of such a name is written with its scheme, as
// "web://ask".
const (
	wordNone    = "none"
	wordAsk     = "ask"
	wordAll     = "all"
	wordPrivate = "private" // only after a comma
)

// allRules are the rules of the word "all".
func allRules() []api.EgressRule {
	return []api.EgressRule{
		{Action: api.EgressAllow, Host: "*", Ports: "80,443"},
		{Action: api.EgressAllow, Host: "*", Class: api.EgressTCP},
	}
}

// ParseAll reads the values of a flag that can be given several times. Each is a list of specs
// (see Parse), separated by commas. Rules keep their order. No value at all denies everything.
func ParseAll(specs []string) (api.EgressPolicy, error) {
	var out api.EgressPolicy
	none, count := false, 0
	for _, list := range specs {
		parts, err := splitSpecs(list)
		if err != nil {
			return api.EgressPolicy{}, err
		}
		for _, s := range parts {
			if count++; count > maxRules+maxPresets {
				return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "more than %d rules and presets", maxRules+maxPresets)
			}
			p, err := Parse(s)
			if err != nil {
				return api.EgressPolicy{}, err
			}
			none = none || s == wordNone
			out.Ask = out.Ask || p.Ask
			out.Rules = append(out.Rules, p.Rules...)
			for _, name := range p.Presets {
				if !slices.Contains(out.Presets, name) {
					out.Presets = append(out.Presets, name)
				}
			}
		}
	}
	if none && count > 1 {
		return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "%q is given together with rules", wordNone).
			WithHint("Leave %q out, or the rules.", wordNone)
	}
	if _, err := compile(out); err != nil {
		return api.EgressPolicy{}, err
	}
	return out, nil
}

// splitSpecs splits a list at its commas, except for those within a spec: between methods,
// between ports, and before "private".
func splitSpecs(list string) ([]string, error) {
	var out []string
	methods := "" // that wait for the rest of their spec
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		first, _, hasTarget := strings.Cut(part, " ")
		isMethods := isMethod(strings.TrimPrefix(first, "!"))
		switch {
		case part == "":
			return nil, api.Errorf(api.KindInvalid, "an empty rule in %.80q", list).
				WithHint("Write rules such as npm,example.org, or none.")
		case isMethods && !hasTarget:
			methods += part + ","
		case methods != "" && !isMethods:
			return nil, api.Errorf(api.KindInvalid, "no host after the methods %.40q", strings.TrimSuffix(methods, ",")).
				WithHint("Write methods before a host, as in GET,HEAD example.org/path.")
		case len(out) > 0 && methods == "" && (part == wordPrivate || continuesPorts(part)):
			out[len(out)-1] += "," + part
		default:
			out, methods = append(out, methods+part), ""
		}
	}
	if methods != "" {
		return nil, api.Errorf(api.KindInvalid, "no host after the methods %.40q", strings.TrimSuffix(methods, ",")).
			WithHint("Write methods before a host, as in GET,HEAD example.org/path.")
	}
	return out, nil
}

// continuesPorts reports whether a part of a list is ports, with a path perhaps, of the spec
// before it: "443" or "8000-8999/path". No host is written in this way.
func continuesPorts(part string) bool {
	digits, _, _ := strings.Cut(part, "/")
	lo, hi, isRange := strings.Cut(digits, "-")
	if _, ok := parsePort(lo); !ok {
		return false
	}
	_, ok := parsePort(hi)
	return ok || !isRange
}

// Parse reads one rule, or a word that stands for something else, in the form of --egress:
//
//	none, ask, all, or the name of a preset
//	[!][methods ][scheme://]host[:ports][paths][,private]
//
// "none" is no rule, "ask" sets Ask, and "all" is every host and port: HTTP and TLS on ports
// 80 and 443, any TCP on the others. A word of lower-case letters, digits and hyphens alone is a
// preset; write a host of one label with a scheme or a port.
//
//   - "!" denies. Without ports and conditions it denies every port.
//   - Methods are in upper case, separated by commas: "GET,HEAD example.org".
//   - Schemes are web (the default), passthrough and tcp; http and https are web on port 80
//     or 443.
//   - The host is a name, *.name, *, an address or a range. IPv6 with ports is in brackets.
//   - Ports are numbers and ranges, separated by commas, or *.
//   - Paths begin with "/" and are separated by "|". Spaces, commas and "|" in them are
//     percent-encoded.
//   - "private" after a comma sets Private.
func Parse(spec string) (api.EgressPolicy, error) {
	switch {
	case len(spec) > maxRuleText:
		return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "the rule %.60q... has %d bytes, the maximum is %d", spec, len(spec), maxRuleText)
	case spec == wordNone:
		return api.EgressPolicy{}, nil
	case spec == wordAsk:
		return api.EgressPolicy{Ask: true}, nil
	case spec == wordAll:
		return api.EgressPolicy{Rules: allRules()}, nil
	case spec == wordPrivate:
		return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "%q has no rule before it", spec).
			WithHint("Write it after a host, as in registry.example.org,private.")
	case isPreset(spec):
		return api.EgressPolicy{Presets: []string{spec}}, nil
	}
	r, err := parseRule(spec)
	if err != nil {
		hint := api.HintOf(err)
		if hint == "" {
			hint = "Write a rule as example.org, *.example.org:8080, tcp://db.example.org:5432 or GET example.org/path/**."
		}
		return api.EgressPolicy{}, api.Errorf(api.KindInvalid, "the rule %.80q: %w", spec, err).WithHint("%s", hint)
	}
	return api.EgressPolicy{Rules: []api.EgressRule{r}}, nil
}

func parseRule(s string) (api.EgressRule, error) {
	r := api.EgressRule{Action: api.EgressAllow}
	rest, deny := strings.CutPrefix(s, "!")
	if deny {
		r.Action = api.EgressDeny
		if isPreset(rest) {
			return r, api.Errorf(api.KindInvalid, "a preset cannot be denied").
				WithHint("Write a host of one label with its scheme: !web://%s.", rest)
		}
	}
	rest, r.Private = strings.CutSuffix(rest, ","+wordPrivate)
	switch {
	case r.Private && isPreset(rest):
		return r, api.Errorf(api.KindInvalid, "a preset cannot be private").
			WithHint("Write a host of one label with its scheme: web://%s,private.", rest)
	case isMethod(rest):
		return r, api.Errorf(api.KindInvalid, "a method without a host").
			WithHint("Write methods before a host, as in GET,HEAD example.org/path.")
	}
	if methods, target, ok := strings.Cut(rest, " "); ok {
		r.Methods, rest = strings.Split(methods, ","), strings.TrimLeft(target, " ")
	}
	if scheme, target, ok := strings.Cut(rest, "://"); ok {
		switch rest = target; scheme {
		case "web":
		case "http":
			r.Ports = "80"
		case "https":
			r.Ports = "443"
		case "tcp", "passthrough":
			r.Class = api.EgressClass(scheme)
		default:
			return r, api.Errorf(api.KindInvalid, "the scheme %.20q is not web, http, https, passthrough or tcp", scheme)
		}
	}
	host, rest, err := cutHost(rest)
	if err != nil {
		return r, err
	}
	r.Host = host
	if ports, ok := strings.CutPrefix(rest, ":"); ok {
		end := strings.IndexByte(ports, '/')
		if end < 0 {
			end = len(ports)
		}
		if r.Ports, rest = ports[:end], ports[end:]; r.Ports == "" {
			return r, api.Errorf(api.KindInvalid, "no port after the colon")
		}
	}
	if strings.Contains(rest, ",") {
		return r, api.Errorf(api.KindInvalid, "the path %.60q has a comma", rest).
			WithHint("Write %%2C for a comma in a path.")
	}
	if rest != "" {
		for path := range strings.SplitSeq(rest, "|") {
			decoded, err := unescape(path)
			if err != nil {
				return r, err
			}
			r.Paths = append(r.Paths, decoded)
		}
	}
	return canonical(r)
}

// cutHost cuts the host from the beginning of a spec.
func cutHost(s string) (host, rest string, err error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok := strings.Cut(inner, "]")
		if !ok || !strings.Contains(host, ":") || rest != "" && rest[0] != ':' && rest[0] != '/' {
			return "", "", api.Errorf(api.KindInvalid, "brackets are for an IPv6 address or range").
				WithHint("Write it as [2001:db8::1]:443 or [2001:db8::/32]:443.")
		}
		return host, rest, nil
	}
	if strings.Count(s, ":") > 1 {
		_, addrErr := netip.ParseAddr(s)
		if _, err := netip.ParsePrefix(s); err == nil || addrErr == nil {
			return s, "", nil
		}
	}
	end := strings.IndexAny(s, ":/")
	if end < 0 {
		return s, "", nil
	}
	host, rest = s[:end], s[end:]
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() && rest[0] == '/' {
		// One or two digits are the length of a prefix; a path of digits needs a port before it.
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n > 1 && n <= 3 && (n == len(rest) || rest[n] == ':' || rest[n] == '/') {
			return host + rest[:n], rest[n:], nil
		}
	}
	return host, rest, nil
}

// canonical validates a rule that was written as text and gives it its shortest form.
func canonical(r api.EgressRule) (api.EgressRule, error) {
	h, err := parseHost(r.Host)
	if err != nil {
		return r, err
	}
	conditions := len(r.Methods) > 0 || len(r.Paths) > 0
	deniesHost := r.Action == api.EgressDeny && !conditions
	if r.Ports == "" && deniesHost {
		r.Ports = "*"
	}
	p, err := rulePorts(h, r.Ports)
	if err != nil {
		return r, err
	}
	r.Host, r.Ports = h.String(), p.String()
	if standard, _ := rulePorts(h, ""); standard.String() == r.Ports {
		r.Ports = ""
	}
	if deniesHost {
		r.Class = api.EgressWeb // it denies every class
	}
	_, err = compileRule(r)
	return r, err
}

// unescape decodes a path of a spec.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", api.Errorf(api.KindInvalid, "the path %.60q ends within an encoded character", s)
			}
			hi, okHi := unhex(s[i+1])
			lo, okLo := unhex(s[i+2])
			if !okHi || !okLo {
				return "", api.Errorf(api.KindInvalid, "the path %.60q has a %% that encodes no character", s)
			}
			if c, i = hi<<4|lo, i+2; c == '*' {
				return "", api.Errorf(api.KindInvalid, "the path %.60q has an encoded wildcard", s).
					WithHint("A rule cannot name a * in a path; write * for any text there.")
			}
		}
		b = append(b, c)
	}
	return string(b), nil
}
