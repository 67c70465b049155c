package githttp

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// Remote is a repository on a server.
type Remote struct {
	Host string
	Port int // 0 for that of https
	Rule api.SecretGit
}

// Environment returns the variables that make git use https for the addresses of ssh of some
// repositories. Git compares beginnings: the address of another repository whose name begins with
// that of a granted one is rewritten too, and refused by Check.
func Environment(remotes []Remote) map[string]string {
	env, n := map[string]string{}, 0
	for _, r := range remotes {
		host, path := r.Host, repository(r.Rule)
		if r.Port != 0 && r.Port != 443 {
			host = net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
		}
		key := fmt.Sprintf("url.https://%s%s.insteadOf", host, path)
		for _, from := range []string{
			"git@" + r.Host + ":" + strings.TrimPrefix(path, "/"),
			"git@" + r.Host + ":" + path,
			"ssh://git@" + r.Host + path,
			"ssh://git@" + r.Host + ":22" + path,
			"ssh://" + r.Host + path,
			"git+ssh://git@" + r.Host + path,
		} {
			env[fmt.Sprintf("GIT_CONFIG_KEY_%d", n)], env[fmt.Sprintf("GIT_CONFIG_VALUE_%d", n)] = key, from
			n++
		}
	}
	if n > 0 {
		env["GIT_CONFIG_COUNT"] = strconv.Itoa(n)
	}
	return env
}
