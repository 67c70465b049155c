//go:build linux

package sudo

import (
	"fmt"
	"strings"
)

const usage = `usage: sudo [-EHinsS] [-D DIR] [-u USER] [VAR=VALUE...] [COMMAND [ARG...]]

  -u USER  run as this user of the sandbox (default root)
  -i       a login shell, or the command in one, in the user's home
  -s       a shell, or the command in one
  -E       keep the environment; --preserve-env=NAME,... keeps these variables
  -D DIR   start in this directory
  -n, -S, -H, -p TEXT have no effect: there is no password, and HOME is the user's home
  -v, -k, -K, -l, -V, -h work as usual
`

// options are the parsed command line.
type options struct {
	user         string
	login, shell bool
	keepEnv      bool
	keep         []string
	dir          string
	env          map[string]string
	args         []string
	// say is printed instead of running a command. If done is true, the program ends even
	// if say is empty.
	say  string
	done bool
}

// parse parses the command line without the program's name.
func parse(args []string) (*options, error) {
	o := &options{env: map[string]string{}}
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			args = args[1:]
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		var err error
		if strings.HasPrefix(arg, "--") {
			args, err = o.long(arg, args)
		} else {
			args, err = o.short(arg[1:], args)
		}
		if err != nil {
			return nil, err
		}
	}
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if !ok || name == "" || strings.ContainsRune(name, '/') {
			break
		}
		o.env[name] = value
		args = args[1:]
	}
	o.args = args
	if o.login && o.shell {
		return nil, fmt.Errorf("-i and -s cannot be combined")
	}
	if len(args) == 0 && !o.login && !o.shell && !o.done {
		return nil, fmt.Errorf("missing command\n%s", strings.TrimSpace(usage))
	}
	return o, nil
}

// short parses the letters of one argument.
func (o *options) short(letters string, rest []string) ([]string, error) {
	for i, c := range letters {
		takes := strings.ContainsRune("upD", c)
		value := ""
		if takes {
			if value = letters[i+1:]; value == "" {
				if len(rest) == 0 {
					return nil, fmt.Errorf("option -%c needs a value", c)
				}
				value, rest = rest[0], rest[1:]
			}
		}
		if err := o.set(c, value); err != nil {
			return nil, err
		}
		if takes {
			break
		}
	}
	return rest, nil
}

// letters maps long options to their letters.
var letters = map[string]rune{
	"user": 'u', "prompt": 'p', "chdir": 'D', "login": 'i', "shell": 's', "preserve-env": 'E', "set-home": 'H', "non-interactive": 'n',
	"stdin": 'S', "validate": 'v', "reset-timestamp": 'k', "remove-timestamp": 'K', "list": 'l', "version": 'V', "help": 'h',
}

func (o *options) long(arg string, rest []string) ([]string, error) {
	name, value, has := strings.Cut(arg[2:], "=")
	c, ok := letters[name]
	switch takes := strings.ContainsRune("upD", c); {
	case !ok:
		return nil, fmt.Errorf("unknown option --%s", name)
	case name == "preserve-env" && has:
		o.keep = append(o.keep, strings.Split(value, ",")...)
		return rest, nil
	case takes && !has && len(rest) == 0:
		return nil, fmt.Errorf("option --%s needs a value", name)
	case takes && !has:
		value, rest = rest[0], rest[1:]
	case !takes && has:
		return nil, fmt.Errorf("option --%s takes no value", name)
	}
	return rest, o.set(c, value)
}

func (o *options) set(c rune, value string) error {
	switch c {
	case 'u':
		o.user = strings.TrimPrefix(value, "#")
		if o.user == "0" {
			o.user = "root"
		}
	case 'D':
		o.dir = value
	case 'i':
		o.login = true
	case 's':
		o.shell = true
	case 'E':
		o.keepEnv = true
	case 'n', 'S', 'H', 'p':
	case 'v', 'k', 'K':
		o.done = true
	case 'l':
		o.done, o.say = true, "every user of this sandbox may run any command as root without a password\n"
	case 'V':
		o.done, o.say = true, "sudo of Hortus\n"
	case 'h':
		o.done, o.say = true, usage
	default:
		return fmt.Errorf("unknown option -%c\n%s", c, strings.TrimSpace(usage))
	}
	return nil
}
