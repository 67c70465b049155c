package secret

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/terminal"
)

type setCmd struct {
	Name string   `arg:"" name:"name" complete:"secrets" help:"Name: lower-case letters, digits, and . _ -. An existing secret of this name is replaced."`
	Args []string `arg:"" optional:"" name:"command" passthrough:"partial" complete:"files" help:"Command of --from-command and its arguments, after --."`

	To     []string `sep:"none" placeholder:"BINDING" help:"Requests that the secret may be used in, such as https://api.example.org/v1/** or 'GET,POST https://api.example.org'. Can be repeated."`
	Header string   `placeholder:"NAME" xor:"place" help:"Header of these requests that has the secret (default Authorization)."`
	Query  string   `placeholder:"NAME" xor:"place" help:"Parameter in the address of these requests that has the secret."`
	Basic  bool     `xor:"place" help:"The secret is the user or the password of basic authentication."`

	Preset  string `enum:"anthropic,openai,gemini," default:"" placeholder:"NAME" help:"Instead of --to: the requests of programs that use a vendor's models (anthropic, openai, gemini)."`
	BaseURL string `name:"base-url" placeholder:"URL" help:"Server of --preset, for one that speaks the vendor's API (default: the vendor's own)."`

	Budget      []string `sep:"none" placeholder:"AMOUNT" help:"What may be used of the secret: AMOUNT and unit (requests, tokens or usd), for each /task (default), each /day in UTC, or in /total; such as 5usd or 2000000tokens/day. Can be repeated; docs/secrets.md."`
	ResetBudget bool     `name:"reset-budget" help:"Forget what was used. Without it, a secret that is set anew keeps that."`

	Daemon bool `help:"The secret is for the daemon alone, as the key of a model or the token of a forge that the configuration names; no sandbox can be granted it."`

	ForHeaders bool `name:"for-headers" help:"The secret is for header rules of sandboxes (--header), which may send it to any host that they name. It has no bindings."`

	Git    []string `sep:"none" placeholder:"URL" help:"Git repository, over HTTPS, that the secret may be used for, as the password. Needs --fetch, --push or both. Can be repeated."`
	Fetch  bool     `help:"Allow clone and fetch of the repositories of --git."`
	Push   []string `sep:"none" placeholder:"REFS" help:"Refs that may be pushed to the repositories of --git, such as refs/heads/hortus/*. Can be repeated."`
	Force  bool     `help:"Allow pushes that are not fast-forward."`
	Delete bool     `help:"Allow the deletion of the refs of --push."`

	FromEnv     string         `name:"from-env" placeholder:"VAR" xor:"source" help:"Read the value from an environment variable of the daemon at each use."`
	FromFile    string         `name:"from-file" placeholder:"FILE" xor:"source" complete:"files" help:"Read the value from a file of the daemon's machine at each use."`
	FromCommand bool           `name:"from-command" xor:"source" help:"The value is the output of a command, which the daemon runs without a shell. Give the command after --."`
	Lifetime    flags.Duration `placeholder:"DURATION" help:"How long the output of the command is used (default 5m, maximum 24h)."`
	Sign        string         `enum:"aws-sigv4,oauth," default:"" placeholder:"METHOD" help:"Do not send the value: sign requests with it (aws-sigv4), or send an access token that is fetched with it (oauth). The value is a JSON object; docs/secrets.md."`
}

// Help returns what the first line of help does not.
func (setCmd) Help() string {
	return `Without a source, the value is read from standard input; a terminal does not show it.
A value has at least 8 bytes and no line break; one at its end is cut. Examples:

    hortus secret set crm --to 'https://api.example.org/v1/**'
    hortus secret set crm --to 'GET https://api.example.org/**' --header X-API-Key < key.txt
    hortus secret set anthropic --preset anthropic --budget 5usd --budget 2000000tokens/day
    hortus secret set crm --from-env CRM_TOKEN --to https://api.example.org
    hortus secret set openai --for-headers < key.txt
    hortus secret set forge --git https://git.example.org/o/r --fetch --push 'refs/heads/hortus/*'
    hortus secret set aws --lifetime 30m --sign aws-sigv4 --to https://s3.example.org --from-command -- aws-login --json`
}

// Run sets a secret.
func (c *setCmd) Run(ctx app.Context, a *app.App) error {
	if !api.ValidSecretName(c.Name) {
		return api.Errorf(api.KindInvalid, "%.80q is not a valid name for a secret", c.Name).
			WithHint(`use 1 to %d lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit; "uses" is reserved`, api.MaxSecretName)
	}
	req, err := c.request(a)
	if err != nil {
		return err
	}
	if req.Source == secrets.Stored {
		// What else is wrong is said before a value is asked for.
		probe := req
		probe.Value, probe.Signer = strings.Repeat("x", secrets.MinValue), secrets.Plain
		if err := secrets.Check(probe); err != nil {
			return err
		}
		if req.Value, err = readValue(a, c.Name, req.Signer); err != nil {
			return err
		}
	}
	if err := secrets.Check(req); err != nil {
		return err
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if err := set(ctx, a, cl, c.Name, req); err != nil {
		return err
	}
	if note := c.presetNote(); note != "" && !a.Flags.JSON {
		a.Note("%s", note)
	}
	return nil
}

func set(ctx app.Context, a *app.App, cl *client.Client, name string, req secrets.Set) error {
	s, err := cl.Secrets.Set(ctx, name, req)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	verb := "set"
	if !s.UpdatedAt.Equal(s.CreatedAt) {
		verb = "replaced"
	}
	if s.ForHeaders {
		a.Note("%s is %s; header rules may send it to any host that they name", s.Name, verb)
		return nil
	}
	if len(s.Bindings) == 0 {
		a.Note("%s is %s; it is for the daemon alone", s.Name, verb)
		return nil
	}
	a.Note("%s is %s; it may be used in", s.Name, verb)
	for _, b := range s.Bindings {
		a.Note("  %s", FormatBinding(b))
	}
	if len(s.Budgets) > 0 {
		a.Note("its budgets: %s", formatBudgets(s.Budgets))
	}
	return nil
}

// request makes a request of the flags, without a value.
func (c *setCmd) request(a *app.App) (req secrets.Set, err error) {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	req = secrets.Set{Source: secrets.Stored, Signer: secrets.Signer(c.Sign), LifetimeMS: c.Lifetime.Milliseconds(), ForHeaders: c.ForHeaders}
	switch {
	case c.FromCommand && len(args) == 0:
		return req, api.Errorf(api.KindInvalid, "--from-command without a command").WithHint("give it after --: hortus secret set %s ... --from-command -- CMD ARGS", c.Name)
	case c.FromCommand:
		req.Source, req.Command = secrets.Command, args
	case len(args) > 0:
		// It may be a value: it is not repeated.
		return req, api.Errorf(api.KindInvalid, "secret set has an argument after the name: a value is never an argument, which other users and the shell's history would see").
			WithHint("leave it out and enter it, or pipe it to standard input; a command needs --from-command")
	case c.FromEnv != "":
		req.Source, req.From = secrets.Variable, c.FromEnv
	case c.FromFile != "":
		if req.Source, req.From, err = secrets.File, c.FromFile, c.here(a); err != nil {
			return req, err
		}
		if !filepath.IsAbs(req.From) {
			req.From, err = filepath.Abs(req.From)
		}
	}
	if err != nil {
		return req, api.Errorf(api.KindInvalid, "--from-file: %w", err)
	}
	if req.Budgets, err = parseBudgets(c.Budget); err != nil {
		return req, err
	}
	req.ResetBudget = c.ResetBudget
	if c.Preset != "" || c.BaseURL != "" {
		req.Bindings, err = c.presetBindings()
		return req, err
	}
	req.Bindings, err = c.bindings()
	return req, err
}

// here refuses a relative path for a daemon on another machine.
func (c *setCmd) here(a *app.App) error {
	_, remote, err := a.Remote()
	if err == nil && remote && !filepath.IsAbs(c.FromFile) {
		err = api.Errorf(api.KindInvalid, "--from-file %s: the path must be absolute, because it is on the daemon's machine", c.FromFile).
			WithHint("to store the content of a local file: hortus secret set %s ... < FILE", c.Name)
	}
	return err
}

// bindings reads the flags about requests.
func (c *setCmd) bindings() (all []secrets.Binding, err error) {
	usual := secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}
	switch {
	case c.Header != "":
		usual.Name = c.Header
	case c.Query != "":
		usual = secrets.Place{Kind: secrets.InQuery, Name: c.Query}
	case c.Basic:
		usual = secrets.Place{Kind: secrets.InBasic}
	}
	placed, rights := c.placed(), c.rights()
	switch {
	case c.Daemon && (len(c.To)+len(c.Git) > 0 || placed || rights || c.Sign != ""):
		return nil, api.Errorf(api.KindInvalid, "--daemon is for a secret that no request of a sandbox has; the other flags say in which requests it is").
			WithHint("leave --daemon out, or set two secrets")
	case c.ForHeaders && (c.Daemon || len(c.To)+len(c.Git) > 0 || placed || rights || c.Sign != ""):
		return nil, api.Errorf(api.KindInvalid, "--for-headers is for a secret that header rules of sandboxes send; --daemon and the flags for bindings say something else").
			WithHint("leave --for-headers out, or set two secrets")
	case c.Daemon, c.ForHeaders:
		return nil, nil
	case len(c.To)+len(c.Git) == 0:
		return nil, api.Errorf(api.KindInvalid, "--to is missing: a secret is only used in requests that it is bound to").
			WithHint("for example --to https://api.example.org/v1/**, or --git https://git.example.org/o/r --fetch; --preset for the API of a model; --daemon is for keys of models and tokens of forges of the daemon itself")
	case placed && len(c.To) == 0:
		return nil, api.Errorf(api.KindInvalid, "--header, --query and --basic are about --to, which is missing; git uses basic authentication")
	case rights && len(c.Git) == 0:
		return nil, api.Errorf(api.KindInvalid, "--fetch, --push, --force and --delete are about --git, which is missing")
	case len(c.Git) > 0 && !c.Fetch && len(c.Push) == 0:
		return nil, api.Errorf(api.KindInvalid, "--git allows nothing by itself").
			WithHint("add --fetch, --push 'refs/heads/hortus/*', or both")
	case (c.Force || c.Delete) && len(c.Push) == 0:
		return nil, api.Errorf(api.KindInvalid, "--force and --delete are about --push, which is missing")
	}
	for _, text := range c.To {
		b, err := ParseBinding(text, usual)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	for _, text := range c.Git {
		b, err := ParseBinding("git "+text, usual)
		if err != nil {
			return nil, err
		}
		b.Git.Fetch, b.Git.Push, b.Git.Force, b.Git.Delete = c.Fetch || b.Git.Fetch, append(b.Git.Push, c.Push...), c.Force || b.Git.Force, c.Delete || b.Git.Delete
		all = append(all, b)
	}
	return all, nil
}

// placed reports whether a flag says where in a request the secret is.
func (c *setCmd) placed() bool { return c.Header != "" || c.Query != "" || c.Basic }

// rights reports whether a flag is about git repositories.
func (c *setCmd) rights() bool { return c.Fetch || len(c.Push) > 0 || c.Force || c.Delete }

// maxTyped is the maximum size of a line of a terminal, which drops the rest.
const maxTyped = 4095

// readValue reads a value from standard input. One line break at the end is cut; the JSON of a
// signer may have several lines.
func readValue(a *app.App, name string, signer secrets.Signer) (string, error) {
	var b []byte
	var err error
	if t := terminal.Of(a); t != nil {
		b, err = t.ReadHidden(a, "value of "+name+" (it is not shown): ")
		if err == nil && len(b) >= maxTyped {
			return "", api.Errorf(api.KindInvalid, "the value has %d bytes or more, which a terminal may have truncated", maxTyped).
				WithHint("pipe it: hortus secret set %s ... < FILE", name)
		}
	} else {
		b, err = io.ReadAll(io.LimitReader(a.Env.Stdin, secrets.MaxValue+3))
	}
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "read the value: %w", err)
	}
	value, cut := strings.CutSuffix(string(b), "\n")
	if cut {
		value = strings.TrimSuffix(value, "\r")
	}
	if signer != secrets.Plain {
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(value)) == nil {
			value = compact.String()
		}
	}
	if value == "" {
		return "", api.Errorf(api.KindInvalid, "standard input has no value").
			WithHint("enter it on a terminal, or pipe it: hortus secret set %s ... < FILE", name)
	}
	return value, nil
}
