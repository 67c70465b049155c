package githttp

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"hortus.dev/api/secrets"
)

// Remote is a repository on a server.
type Remote struct {
	Host string
	Port int // 0 for that of https
	Rule secrets.Git
	// Variable is the environment variable with the placeholder of the password; empty if git
	// gets it in another way. It is the name of a variable of a shell.
	Variable string
}

// Environment returns the variables that make git use https for the addresses of ssh of some
// repositories, and the placeholder in Variable as the password for each. Git compares beginnings:
// the address of another repository whose name begins with that of a granted one is rewritten too,
// and refused by Check.
func Environment(remotes []Remote) map[string]string {
	env, n := map[string]string{}, 0
	set := func(key, value string) {
		env[fmt.Sprintf("GIT_CONFIG_KEY_%d", n)], env[fmt.Sprintf("GIT_CONFIG_VALUE_%d", n)] = key, value
		n++
	}
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
			set(key, from)
		}
		if r.Variable == "" {
			continue
		}
		// Two repositories of a host may have different secrets.
		set("credential.https://"+host+".useHttpPath", "true")
		for _, suffix := range []string{"", ".git"} {
			set("credential.https://"+host+path+suffix+".helper", `!f() { test "$1" = get && printf 'username=`+user+`\npassword=%s\n' "$`+r.Variable+`"; }; f`)
		}
	}
	if n > 0 {
		env["GIT_CONFIG_COUNT"] = strconv.Itoa(n)
	}
	return env
}

// user is the name beside a token: some forges need this one, the others accept any.
const user = "x-access-token"
