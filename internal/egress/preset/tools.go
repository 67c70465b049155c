package preset

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// askTimeout is the maximum time that a tool has to print its defaults.
const askTimeout = 10 * time.Second

// maxAnswer is the maximum size of such an answer, in bytes.
const maxAnswer = 4 << 10

// noHome is the home directory that a tool is given: none, and root cannot make it either. npm and
// go keep logs and counters in their home.
const noHome = "/dev/null"

// Tools asks the tools of this machine for their defaults: what they use without any
// configuration. So no host is written down here, and a distribution that changes a default is
// followed. An answer is kept as long as the Tools. The zero value asks those in the PATH.
type Tools struct {
	mu    sync.Mutex
	known map[string][]string
}

// questions are the commands that print the defaults of each tool, a line each. They run without
// the configuration of a user and of the machine.
func questions(tool string) (env, argv []string) {
	switch tool {
	case "npm":
		return []string{"npm_config_userconfig=" + noHome + "/user", "npm_config_globalconfig=" + noHome + "/global", "npm_config_update_notifier=false"},
			[]string{"npm", "config", "get", "registry"}
	case "yarn": // Yarn 1; later versions know no such key, and print no address
		return nil, []string{"yarn", "--no-default-rc", "config", "get", "registry"}
	case "go":
		return []string{"GOENV=off", "GOTOOLCHAIN=local", "GO111MODULE=on"}, []string{"go", "env", "GOPROXY", "GOSUMDB"}
	case "pip":
		return nil, []string{"python3", "-I", "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url); print('https://' + PyPI.file_storage_domain)"}
	}
	return nil, nil
}

// Defaults adds the defaults of a tool, if it is installed. See Config.
func (t *Tools) Defaults(ctx context.Context, tool string, d *Defaults) {
	lines := t.ask(ctx, tool)
	if len(lines) == 0 || tool == "yarn" && !strings.Contains(lines[0], "://") {
		return
	}
	var rules []string
	for _, line := range lines {
		first, _, _ := strings.Cut(line, ",")
		if !strings.Contains(first, "://") {
			first = "https://" + first // GOSUMDB is a name
		}
		u, err := url.Parse(first)
		if err != nil || u.Hostname() == "" {
			return
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		rules = append(rules, u.Hostname()+":"+port)
		d.Public = append(d.Public, u.Hostname())
	}
	switch tool {
	case "npm":
		d.NPM.Registry, d.NPM.Rules = lines[0], rules
		t.Defaults(ctx, "yarn", d)
	case "yarn":
		d.NPM.Rules = append(d.NPM.Rules, rules...) // its lock files name it
	case "pip":
		d.Pip.Index, d.Pip.Rules = lines[0], rules
	case "go":
		d.Go.Proxy, d.Go.Rules = lines[0], rules[:1]
		if len(lines) > 1 {
			d.Go.SumDB = lines[1]
		}
	}
}

// ask runs the command of a tool, unless its answer is known. It returns nil if the tool is not
// there or fails.
func (t *Tools) ask(ctx context.Context, tool string) []string {
	t.mu.Lock()
	lines, ok := t.known[tool]
	t.mu.Unlock()
	env, argv := questions(tool)
	if ok || argv == nil {
		return lines
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	// Nothing of the daemon's variables, which may be the configuration of the tool.
	cmd.Env = append(env, "HOME="+noHome, "PATH="+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil || len(out) > maxAnswer {
		return nil
	}
	lines = strings.Fields(string(out))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string][]string{}
	}
	t.known[tool] = lines
	return lines
}
