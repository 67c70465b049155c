package policy

import (
	"fmt"
	"strings"

	"hortus.dev/api"
)

// Format writes a rule in the form that Parse reads, without its source. For a rule that
// Compile refuses it is only for people.
func Format(r api.EgressRule) string {
	var b strings.Builder
	deny := r.Action == api.EgressDeny
	conditions := len(r.Methods) > 0 || len(r.Paths) > 0
	if deny {
		b.WriteByte('!')
	}
	if len(r.Methods) > 0 {
		b.WriteString(strings.Join(r.Methods, ",") + " ")
	}
	h, err := parseHost(r.Host)
	if err != nil {
		h = host{name: r.Host}
	}
	text := h.String()
	ports := formatPorts(h, r)
	switch {
	case deny && !conditions:
		// It denies every class.
		if oneLabel(h) && ports == "" {
			b.WriteString("web://")
		}
	case r.Class != api.EgressWeb:
		b.WriteString(string(r.Class) + "://")
	case oneLabel(h) && ports == "" && !conditions:
		b.WriteString("web://") // or it would be a preset
	}
	if h.addresses() && h.prefix.Addr().Is6() {
		text = "[" + text + "]"
	}
	b.WriteString(text)
	b.WriteString(ports)
	for i, p := range r.Paths {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(escape(p))
	}
	if r.Private {
		b.WriteString("," + wordPrivate)
	}
	return b.String()
}

// oneLabel reports whether a host looks like a word.
func oneLabel(h host) bool {
	return h.name != "" && !strings.Contains(h.name, ".")
}

// formatPorts returns the ports of a rule with a colon before them, or "" for those that Parse
// sets if there are none.
func formatPorts(h host, r api.EgressRule) string {
	p, err := rulePorts(h, r.Ports)
	if err != nil {
		return ":" + r.Ports
	}
	standard, _ := rulePorts(h, "")
	if r.Action == api.EgressDeny && len(r.Methods) == 0 && len(r.Paths) == 0 {
		standard = everyPort()
	}
	text := p.String()
	// A path after an IPv4 address can look like the length of a prefix.
	ambiguous := len(r.Paths) > 0 && h.addresses() && h.prefix.IsSingleIP()
	if text == standard.String() && !ambiguous {
		return ""
	}
	return ":" + text
}

// escape encodes what separates parts of a spec.
func escape(path string) string {
	if !strings.ContainsAny(path, " ,|%") {
		return path
	}
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; c {
		case ' ', ',', '|', '%':
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Summary describes a policy in one line, such as "npm, pip, 3 rules, asks about the rest".
func Summary(p api.EgressPolicy) string {
	parts := append([]string(nil), p.Presets...)
	own := 0
	for _, r := range p.Rules {
		if !fromPreset(p, r) {
			own++
		}
	}
	switch {
	case own == 1:
		parts = append(parts, "1 rule")
	case own > 1:
		parts = append(parts, fmt.Sprintf("%d rules", own))
	}
	if p.Ask {
		parts = append(parts, "asks about the rest")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func fromPreset(p api.EgressPolicy, r api.EgressRule) bool {
	for _, name := range p.Presets {
		if r.Source == name {
			return true
		}
	}
	return false
}
