package preset

import (
	"context"
	"maps"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
)

// Config is where the configuration of the host's tools is.
type Config struct {
	// Getenv returns a variable of the environment, as os.Getenv; nil is no variables.
	Getenv func(string) string
	// Home is the home directory of the user whose configuration counts; empty for none.
	Home string
	// Root is the directory that all paths are below; empty is "/".
	Root string
	// Git and Models are the hosts of the configured forges and model services: a host, a
	// host and a port, or a URL.
	Git, Models []string
	// Public are hosts that are not in a private network.
	Public []string
	// Defaults adds what a tool uses without configuration: "npm", "pip", "go" or "apt". Nil
	// means that nothing is known. Package Tools asks the tools themselves.
	Defaults func(ctx context.Context, tool string, d *Defaults)
}

// Preset is a set of rules.
type Preset struct {
	Name string
	// Rules have the name as Source.
	Rules []api.EgressRule
	// Env is what makes the tools in a sandbox use the mirrors of the host. It has no
	// credentials, and only what differs from the tools' defaults.
	Env map[string]string
	// Warnings say what of the configuration was left out, in sentences without credentials.
	Warnings []string
}

// Defaults are what tools use without configuration. Rules are in the form of policy.Parse.
type Defaults struct {
	NPM struct {
		Registry string
		Rules    []string
	}
	Pip struct {
		Index string
		Rules []string
	}
	Go struct {
		Proxy     string
		Rules     []string // of the proxy
		SumDB     string
		SumDBURLs map[string]string // of those that are not at https:// and their name
	}
	Apt struct{ Rules []string }
	// Public are hosts of the defaults that are not in a private network.
	Public []string
}

// Catalog expands presets.
type Catalog struct{ config Config }

// New returns the presets of a host.
func New(c Config) (*Catalog, error) {
	if c.Getenv == nil {
		c.Getenv = func(string) string { return "" }
	}
	if c.Root == "" {
		c.Root = "/"
	}
	if c.Defaults == nil {
		c.Defaults = func(context.Context, string, *Defaults) {}
	}
	return &Catalog{config: c}, nil
}

// tool is what a preset is for. The presets of package registries allow what installing needs: with another
// method a program could store what it found, with a token of its own.
type tool struct {
	preset, name string
	registry     bool // one of those that packages are installed from
	expand       func(*collector)
}

// tools are the presets in order.
func tools() []tool {
	return []tool{
		{"npm", "npm", true, (*collector).npm},
		{"pip", "pip", true, (*collector).pip},
		{"go", "go", true, (*collector).golang},
		{"apt", "apt", true, (*collector).apt},
		{"npm-publish", "npm", false, (*collector).npm},
		{"pip-publish", "pip", false, (*collector).pip},
		{"git", "git", false, (*collector).git},
		{"models", "models", false, (*collector).models},
	}
}

// readOnly are the methods with which packages are installed.
func readOnly() []string { return []string{"GET", "HEAD"} }

// registries is the preset of all package registries.
const registries = "registries"

// Names returns the names that Expand takes.
func Names() []string {
	var out []string
	for _, t := range tools() {
		out = append(out, t.preset)
	}
	return append(out, registries)
}

// Expand reads the configuration of the host and returns the rules of a preset. An unknown name
// is KindInvalid. A configuration that cannot be read or used is a warning; the preset may have
// no rules then.
func (c *Catalog) Expand(ctx context.Context, name string) (Preset, error) {
	col := &collector{ctx: ctx, config: c.config, defaults: &Defaults{Public: slices.Clone(c.config.Public)}, source: name, env: map[string]string{}}
	found := false
	for _, t := range tools() {
		if t.preset == name || name == registries && t.registry {
			found = true
			if t.registry {
				col.methods = readOnly()
			}
			c.config.Defaults(ctx, t.name, col.defaults)
			t.expand(col)
		}
	}
	if !found {
		return Preset{}, api.Errorf(api.KindInvalid, "there is no preset %.40q", name).
			WithHint("Presets are %s. To allow a host of this name, write web://NAME.", strings.Join(Names(), ", "))
	}
	if err := ctx.Err(); err != nil {
		return Preset{}, err
	}
	p := Preset{Name: name, Rules: col.rules, Env: maps.Clone(col.env), Warnings: col.warnings}
	if _, err := policy.Compile(api.EgressPolicy{Rules: p.Rules}, nil); err != nil {
		return Preset{}, api.Errorf(api.KindInternal, "rules of the preset %s: %w", name, err)
	}
	return p, nil
}

const (
	maxMirrors  = 128 // of a preset
	maxWarnings = 64
)

// collector gathers what a preset consists of.
type collector struct {
	ctx      context.Context
	config   Config
	defaults *Defaults
	source   string
	methods  []string // of every rule; nil for all
	rules    []api.EgressRule
	env      map[string]string
	warnings []string
	mirrors  int
}

func (c *collector) warn(text string) {
	if len(c.warnings) < maxWarnings && !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// standard adds rules of the defaults.
func (c *collector) standard(tool string, specs []string) {
	if len(specs) == 0 {
		c.warn(tool + " is not configured on this machine, and its default is not known because it is not installed")
		return
	}
	p, err := policy.ParseAll(specs)
	if err != nil {
		c.warn("the defaults are wrong: " + err.Error())
		return
	}
	for _, r := range p.Rules {
		c.add(r)
	}
}

// mirror adds a rule for a mirror, unless what it is from is not the operator's.
func (c *collector) mirror(m mirror) {
	if c.mirrors++; c.mirrors > maxMirrors {
		c.warn("more hosts are configured than a preset may have; the rest is left out")
		return
	}
	c.add(api.EgressRule{
		Action: api.EgressAllow, Host: m.target.Host, Ports: m.ports(),
		Private: !slices.Contains(c.defaults.Public, m.target.Host),
	})
}

// add adds a rule. Two rules for the same host that differ in their ports become one.
func (c *collector) add(r api.EgressRule) {
	if r.Source = c.source; r.Methods == nil {
		r.Methods = c.methods
	}
	for i, have := range c.rules {
		if have.Host != r.Host || have.Private != r.Private || len(have.Paths)+len(r.Paths) > 0 || !slices.Equal(have.Methods, r.Methods) {
			continue
		}
		c.rules[i].Ports = joinPorts(have.Ports, r.Ports)
		return
	}
	c.rules = append(c.rules, r)
}

// joinPorts joins the ports of two rules. Only defaults for names have no ports.
func joinPorts(a, b string) string {
	var all []string
	for _, s := range []string{a, b} {
		if s == "" {
			s = "80,443"
		}
		for port := range strings.SplitSeq(s, ",") {
			if !slices.Contains(all, port) {
				all = append(all, port)
			}
		}
	}
	slices.SortFunc(all, func(x, y string) int {
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	return strings.Join(all, ",")
}
