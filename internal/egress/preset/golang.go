package preset

import (
	"fmt"
	"strings"
)

// golang allows the module proxies and the checksum database of Go. "direct" in GOPROXY becomes
// "off": a module from version control needs a rule for its host, and a denied connection is
// harder to understand than what go says about off.
func (c *collector) golang() {
	settings := map[string]string{}
	if path := c.getenv("GOENV"); path != "off" {
		if path == "" {
			path = c.userConfig("go/env")
		}
		settings = parseGoEnv(c.file(path))
	}
	get := func(name, standard string) string {
		for _, v := range []string{c.getenv(name), settings[name], standard} {
			if v = strings.TrimSpace(v); v != "" {
				return v
			}
		}
		return ""
	}
	if proxy := get("GOPROXY", c.defaults.Go.Proxy); proxy == c.defaults.Go.Proxy {
		c.standard("go", c.defaults.Go.Rules)
	} else {
		c.env["GOPROXY"] = c.goproxy(proxy)
	}
	if db := get("GOSUMDB", c.defaults.Go.SumDB); db != "" {
		c.gosumdb(db)
	}
}

// goproxy allows the proxies of a GOPROXY and returns the one for sandboxes.
func (c *collector) goproxy(list string) string {
	standard, _, _ := strings.Cut(c.defaults.Go.Proxy, ",")
	var out strings.Builder
	separator := ""
	add := func(s string) {
		if out.Len() > 0 {
			out.WriteString(separator)
		}
		out.WriteString(s)
	}
	for list != "" && c.mirrors <= maxMirrors {
		item, next := list, ""
		if at := strings.IndexAny(list, ",|"); at >= 0 {
			item, next, list = list[:at], list[at:at+1], list[at+1:]
		} else {
			list = ""
		}
		item = strings.TrimSpace(item)
		switch {
		case item == "":
		case item == "off" || item == "direct":
			if item == "direct" {
				c.warn("GOPROXY has direct, which is off in sandboxes: modules from version control need rules for their hosts.")
			}
			add("off")
			return out.String() // go does not read further
		default:
			if !strings.Contains(item, ":/") && !strings.HasPrefix(item, "/") {
				item = "https://" + item
			}
			if m, ok := c.read("a proxy of GOPROXY", item); !ok {
				break
			} else if m.is(standard) {
				c.standard("go", c.defaults.Go.Rules)
				add(m.url)
			} else {
				c.mirror(m)
				add(m.url)
			}
		}
		separator = next
	}
	if out.Len() == 0 {
		return "off"
	}
	return out.String()
}

// gosumdb allows the checksum database: "off", "name", "name+key" or "name+key URL".
func (c *collector) gosumdb(value string) {
	fields := strings.Fields(value)
	if value == "off" {
		c.env["GOSUMDB"] = "off"
		return
	}
	if len(fields) == 0 || len(fields) > 2 || len(fields[0]) > maxURL ||
		strings.ContainsFunc(fields[0], func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '@' }) {
		c.warn("GOSUMDB is not a name and a URL; it is left out.")
		return
	}
	name, _, _ := strings.Cut(fields[0], "+")
	raw := "https://" + name
	if u := c.defaults.Go.SumDBURLs[name]; u != "" {
		raw = u
	}
	if len(fields) == 2 {
		if raw = fields[1]; !strings.Contains(raw, "://") {
			raw = "https://" + raw
		}
	}
	m, ok := c.read("the URL of GOSUMDB", raw)
	if !ok {
		return
	}
	c.mirror(m)
	switch {
	case value == c.defaults.Go.SumDB:
	case len(fields) == 2:
		c.env["GOSUMDB"] = fmt.Sprintf("%s %s", fields[0], m.url)
	default:
		c.env["GOSUMDB"] = fields[0]
	}
}

// parseGoEnv returns the settings of the file of "go env -w" that name hosts.
func parseGoEnv(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		key, value, ok := strings.Cut(line, "=")
		if ok && (key == "GOPROXY" || key == "GOSUMDB") {
			out[key] = value
		}
	}
	return out
}
