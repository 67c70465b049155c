package external

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/agent/runtime"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/repo"
)

// folder is where agents are in a sandbox: the place of what a setup installs outside of the repository.
const folder = repo.Agents

// Layers keeps file trees.
type Layers interface {
	// Layer returns the tree of that key, which build writes below dir if it is not there.
	Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (repo.Layer, func(), error)
}

// Config is what Agents are made of. All fields but Now are required.
type Config struct {
	// Setup installs the packages.
	Setup  repo.Setup
	Layers Layers
	// Secret returns a secret of an account, without its value.
	Secret func(ctx context.Context, account, name string) (secrets.Secret, error)
	Now    func() time.Time
}

// Agents are the agents of the catalogue. They may be used from several goroutines.
type Agents struct{ cfg Config }

var _ repo.Runtimes = (*Agents)(nil)

// New makes Agents.
func New(cfg Config) *Agents {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Agents{cfg}
}

// Prepare implements repo.Runtimes.
func (a *Agents) Prepare(ctx context.Context, task api.Task, q repo.SetupRequest) (repo.Runtime, error) {
	agent, err := runtime.Find(task.Create.Repo.Agent)
	if err != nil {
		return repo.Runtime{}, err
	}
	preset, err := agent.Choose(task.Create.Model)
	if err != nil {
		return repo.Runtime{}, err
	}
	root := path.Join(folder, agent.ID())
	out := repo.Runtime{Label: agent.Label(), Obeys: agent.Obeys, Root: strings.TrimPrefix(root, repo.Workspace+"/")}
	grant, given := granted(task, preset)
	if !given {
		out.Secrets = []api.SecretGrant{grant}
	}
	secret, err := a.cfg.Secret(ctx, q.Sandbox.Account, grant.Name)
	if api.KindOf(err) == api.KindNotFound {
		err = api.Errorf(api.KindNotFound, "the agent %s needs the key of a model, and there is no secret %s", agent.Name, grant.Name).
			WithHint("hortus secret set %s --preset %s --budget 5usd < FILE; for a secret with another name: --secret %s=NAME", grant.Name, preset.Server, preset.Key)
	}
	if err != nil {
		return repo.Runtime{}, err
	}
	url, err := address(secret, preset.Server)
	if err != nil {
		return repo.Runtime{}, err
	}
	if out.Layer, out.Release, err = a.install(ctx, agent, q); err != nil {
		return repo.Runtime{}, api.Errorf(api.KindOf(err), "install the agent %s: %w", out.Label, err).WithHint("%s", api.HintOf(err))
	}
	launch := agent.Launch(preset, runtime.Location{Root: root, Home: path.Join(folder, "home", agent.Name), URL: url})
	out.New = func(d repo.WorkerConfig) repo.Worker {
		return newWorker(agent, preset, launch, d, a.cfg.Now)
	}
	return out, nil
}

// granted returns the grant with the key of a model, and whether the task has it.
func granted(task api.Task, p runtime.Preset) (api.SecretGrant, bool) {
	for _, g := range task.Create.Sandbox.Secrets {
		if g.Variable() == p.Key {
			return g, true
		}
	}
	return api.SecretGrant{Name: string(p.Server), Env: p.Key}, false
}

// suffixes are the paths behind the address that programs are given, by the API of the server.
func suffixes(server secrets.Model) []string {
	switch server {
	case secrets.Anthropic:
		return []string{"/v1/messages"}
	case secrets.OpenAI:
		return []string{"/responses", "/chat/completions"}
	}
	return []string{"/v1beta/models"}
}

// usual is the path of the address if no path of a binding says it.
func usual(server secrets.Model) string {
	if server == secrets.OpenAI {
		return "/v1"
	}
	return ""
}

// address returns the address of the server of a secret, as programs are given it.
func address(s secrets.Secret, server secrets.Model) (string, error) {
	for _, b := range s.Bindings {
		if b.Model != server || b.Git != nil {
			continue
		}
		base := usual(server)
		for _, suffix := range suffixes(server) {
			for _, p := range b.Paths {
				if before, ok := strings.CutSuffix(p, suffix); ok && !strings.Contains(before, "*") {
					base = before
				}
			}
		}
		host := b.Host
		if b.Port != 0 {
			host += ":" + strconv.Itoa(b.Port)
		}
		return cmp.Or(b.Scheme, "https") + "://" + host + base, nil
	}
	return "", api.Errorf(api.KindInvalid, "the secret %s is not bound to a server with the API of %s", s.Name, server).
		WithHint("hortus secret set %s --preset %s --budget 5usd < FILE", s.Name, server)
}

// recipe is how the packages are installed. They are compared with the hashes of the lock file, and their own scripts do not
// run.
const recipe = `steps:
  - name: agent {id}
    timeout: 15m
    retries: 1
    run: |
      command -v npm >/dev/null || { echo "the sandbox has no npm, which installs the agent"; exit 1; }
      to={root}; rm -rf "$to" && mkdir -p "$to" && cp package.json package-lock.json "$to/" && cd "$to" || exit 1
      npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --cache {cache} || exit 1
      rm -rf {cache}
      {install}
egress: [npm]
`

// install returns the layer with an agent.
func (a *Agents) install(ctx context.Context, agent runtime.Runtime, q repo.SetupRequest) (repo.Layer, func(), error) {
	files, err := agent.Packages()
	if err != nil {
		return "", nil, err
	}
	fill := strings.NewReplacer("{id}", agent.ID(), "{root}", path.Join(folder, agent.ID()), "{cache}", repo.Workspace+"/.npm-cache", "{install}", agent.Install)
	files[".hortus/setup.yaml"] = []byte(fill.Replace(recipe))
	base, release, err := a.cfg.Layers.Layer(ctx, "agent 1 "+agent.ID()+" "+sum(files), func(_ context.Context, dir string) error { return write(dir, files) })
	if err != nil {
		return "", nil, err
	}
	defer release() // what is installed is a layer of its own
	q.Repository, q.Layer, q.Required, q.Agent = "agent "+agent.ID(), base, true, true
	q.Sandbox.Env, q.Sandbox.Secrets, q.Sandbox.Headers = nil, nil, nil
	for name, b := range files {
		q.Files = append(q.Files, cache.Entry{Path: name, Mode: cache.Regular, Size: int64(len(b))})
	}
	q.Read = func(p string, most int64) []byte { return files[p][:min(most, int64(len(files[p])))] }
	p, err := a.cfg.Setup.Prepare(ctx, q)
	if err != nil {
		return "", nil, err
	}
	if len(p.Layers) != 1 {
		p.Release()
		return "", nil, api.Errorf(api.KindInternal, "the installation has %d layers instead of one", len(p.Layers))
	}
	return p.Layers[0], p.Release, nil
}

// write writes files below a directory.
func write(dir string, files map[string][]byte) error {
	for name, b := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
		if err != nil {
			return api.Errorf(api.KindInternal, "write the packages of an agent: %w", err)
		}
	}
	return nil
}

// sum is a hash of files.
func sum(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.Write([]byte(name + "\x00" + strconv.Itoa(len(files[name])) + "\x00"))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
