package cli

import (
	"net"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
)

// local marks the commands that are about this machine, whatever daemon others speak
// to. The text names the command.
type local interface{ onlyHere() string }

func (*stopCmd) onlyHere() string      { return "hortus daemon stop" }
func (*statusCmd) onlyHere() string    { return "hortus daemon status" }
func (*unitCmd) onlyHere() string      { return "hortus daemon unit" }
func (*uninstallCmd) onlyHere() string { return "hortus uninstall" }

// checkHere refuses --host for a command that could only ignore it. A context that is
// in use is no such word: it is about the commands that it can be about.
func (a *app) checkHere() error {
	node := a.parsed.Selected()
	if a.opt.Host == "" || a.opt.Host == localContext || node == nil || !node.Target.CanAddr() {
		return nil
	}
	if c, ok := node.Target.Addr().Interface().(local); ok {
		return &failure{2, api.Errorf(api.KindInvalid, "%s is about this machine alone; it cannot be told a --host", c.onlyHere()).
			WithHint("run it on that machine; or leave out --host, and unset HORTUS_HOST")}
	}
	return nil
}

// far gives what commands speak to when it is not this machine's own daemon.
func (a *app) far() (remote, bool, error) {
	name := a.opt.Host
	named := name != ""
	if name == localContext {
		return remote{}, false, nil
	}
	if dir := a.given("data-dir"); dir {
		// Whoever names a directory means the daemon of that directory.
		if named && a.given("host") {
			return remote{}, false, &failure{2, api.Errorf(api.KindInvalid, "--data-dir and --host name two daemons").WithHint("give one of them")}
		}
		return remote{}, false, nil
	}
	if strings.Contains(name, "://") {
		r := remote{Host: name, Key: a.getenv("HORTUS_API_KEY")}
		if r.Key == "" && a.getenv("E2B_API_URL") == name {
			// The key of E2B's variables is for the address of E2B's variables alone.
			r.Key = a.getenv("E2B_API_KEY")
		}
		if r.Key == "" {
			return r, true, api.Errorf(api.KindUnauthenticated, "there is no API key for %.100s", name).
				WithHint("set HORTUS_API_KEY, or keep one: hortus context add NAME --host %.100s --key-file FILE", name)
		}
		return r, true, nil
	}
	all, _, err := a.contexts()
	if err != nil {
		if !named && api.KindOf(err) == api.KindInvalid && a.getenv("HOME") == "" {
			return remote{}, false, nil // nowhere to keep any
		}
		return remote{}, false, err
	}
	if !named {
		name = all.Current
	}
	if name == "" || name == localContext {
		return remote{}, false, nil
	}
	r, ok := all.Contexts[name]
	if !ok {
		return r, false, noContext(name)
	}
	return r, true, nil
}

// given says whether a flag stands on the command line itself.
func (a *app) given(flag string) bool {
	if a.parsed == nil {
		return false
	}
	for _, p := range a.parsed.Path {
		if p.Flag != nil && p.Flag.Name == flag && !p.Resolved {
			return true
		}
	}
	return false
}

// farClient connects to a daemon of another machine.
func (a *app) farClient(r remote) (*client.Client, error) {
	c, err := client.Remote(r.Host, r.Key)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(r.Host); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		a.note("warning: %s is not encrypted; the API key can be read on the way", u.Host)
	}
	a.log.Debug("daemon", "host", r.Host)
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
