package daemon

import (
	"cmp"
	"log/slog"
	"math"
	"os"

	"hortus.dev/api"
	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/daemon/datadir"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/internal/daemon/upkeep"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/certificate"
	"hortus.dev/internal/server/front"
	"hortus.dev/internal/storage/image"
	"hortus.dev/internal/storage/layer/archive/place"
	"hortus.dev/internal/store/database"
)

// flagKeys are the settings of the daemon's command line flags.
var flagKeys = map[string]string{
	"data-dir": "data-dir", "idle": "daemon.idle", "pool": "daemon.pool", "log-level": "log-level",
	"listen": "serve.listen", "insecure-listen": "serve.insecure-listen", "tls-cert": "serve.tls-cert", "tls-key": "serve.tls-key",
	"acme-names": "serve.acme-names", "redirect-listen": "serve.redirect-listen", "domain": "serve.domain", "public-url": "serve.public-url",
	"store": "store.url",
}

// settings are those that a daemon starts with.
type settings struct {
	Config
	level slog.Level
	// serve has a resident daemon serve over TCP.
	serve bool
}

// Settings reads the configuration of a daemon from a file, or from the usual one if file is empty,
// and from the environment. Flags are "data-dir", "pool" and other names of flags of the daemon.
func Settings(file string, flags map[string]*string) (Config, error) {
	set, err := loadSettings(file, flags)
	return set.Config, err
}

// loadSettings reads the settings of a daemon: flags take precedence over the environment,
// that over the file, and that over the defaults. Empty flags are not set.
func loadSettings(file string, flags map[string]*string) (out settings, err error) {
	conf, err := config.Load(config.Source{Getenv: os.Getenv, File: file, UID: os.Getuid()})
	if err != nil {
		return out, err
	}
	for name, text := range flags {
		if *text != "" {
			if err := conf.Override(flagKeys[name], name, *text); err != nil {
				return out, err
			}
		}
	}
	r := config.Reader{Config: conf}
	out = settings{
		level: r.Level("log-level"), serve: r.Bool("daemon.serve"),
		Config: Config{
			DataDir: r.Text("data-dir"), Idle: r.Stay("daemon.idle"), FollowEvery: r.Duration("daemon.follow-every"), Pool: r.Int("daemon.pool"), Runsc: r.Text("daemon.runsc"),
			Toolchains: r.List("daemon.toolchains"), Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Getenv: os.Getenv, Policy: conf.Policy(), KeySecrets: conf.KeySecrets(),
			Embedding: r.Text("model.embedding"), Similarity: r.Float("model.embedding-similarity"),
			Room: admission.Config{
				MaxSandboxes: r.Int("daemon.max-sandboxes"), MemoryShare: r.Float("daemon.memory-share"),
				Overcommit: r.Float("daemon.overcommit"), CPUOvercommit: r.Float("daemon.cpu-overcommit"), Patience: r.Duration("daemon.patience"),
			},
			Keep:       upkeep.Bounds{Rows: r.Int("daemon.keep-rows"), Age: r.Stay("daemon.keep-ended")},
			Rates:      quota.RatesConfig{Requests: r.Float("daemon.request-rate"), Creates: r.Float("daemon.create-rate")},
			LayerBytes: r.Room("daemon.layer-size"), LayerArchive: r.Text("daemon.layer-archive"), FetchedBytes: r.Room("daemon.fetched-size"),
			Store: Store{URL: r.Text("store.url"), PasswordFile: r.Text("store.password-file"), KeyFile: r.Text("store.key-file")},
			Fleet: FleetConfig{Name: r.Text("fleet.name"), Listen: r.Text("fleet.listen"), Address: r.Text("fleet.address")},
			Drain: r.Stay("daemon.drain"), Candidates: r.Int("daemon.candidates"), CopyMemory: r.Bool("gvisor.copy-memory"),
			DockerHost: cmp.Or(r.Text("docker.host"), os.Getenv("DOCKER_HOST")), DockerCertificates: cmp.Or(r.Text("docker.certificates"), os.Getenv("DOCKER_CERT_PATH")), DockerRuntime: r.Text("docker.runtime"), EmulateMachines: r.Bool("microvm.emulate"),
			E2B: RemoteService{
				KeySecret: r.Text("e2b.key-secret"), APIURL: r.Text("e2b.api-url"), SandboxURL: r.Text("e2b.sandbox-url"),
				Domains: []string{r.Text("e2b.domain")}, Template: r.Text("e2b.template"), Internet: r.Bool("e2b.internet"),
			},
			Daytona: RemoteService{
				KeySecret: r.Text("daytona.key-secret"), APIURL: r.Text("daytona.api-url"), Domains: r.List("daytona.domains"),
				Template: r.Text("daytona.snapshot"), Internet: r.Bool("daytona.internet"),
			},
			Kubernetes: Kubernetes{
				Config: kubernetes.Config{
					Kubeconfig: r.Text("kubernetes.kubeconfig"), Namespace: r.Text("kubernetes.namespace"), Image: r.Text("kubernetes.image"), GuestImage: r.Text("kubernetes.guest-image"),
					GuestURL: r.Text("kubernetes.guest-url"), Listen: r.Text("kubernetes.listen"), RuntimeClass: r.Text("kubernetes.runtime-class"), DaemonLabels: r.List("kubernetes.daemon-labels"),
					CPUOvercommit: r.Float("kubernetes.cpu-overcommit"),
				},
				Internet: r.Bool("kubernetes.internet"),
			},
			Usual:  api.CreateSandbox{Isolation: r.Text("sandbox.isolation"), Limits: r.Limits()},
			Egress: network.Config{Proxy: r.Text("egress.proxy"), CAFile: r.Text("egress.ca-file"), CacheBytes: r.Room("egress.cache-size"), E2BInternet: r.Bool("egress.e2b-internet")},
			OpenID: OpenID{Issuer: r.Text("oidc.issuer"), ClientID: r.Text("oidc.client-id"), Secret: r.Text("oidc.secret"), Scopes: r.List("oidc.scopes"), Domains: r.List("oidc.domains"), Claim: r.Text("oidc.claim"), Rules: r.List("oidc.rules")},
			Front: front.Config{
				Listen: r.Text("serve.listen"), Insecure: r.Bool("serve.insecure-listen"), Origins: r.List("serve.origins"), Redirect: r.Text("serve.redirect-listen"), Domain: r.Text("serve.domain"), PublicURL: r.Text("serve.public-url"),
				TLS: certificate.Config{
					CertFile: r.Text("serve.tls-cert"), KeyFile: r.Text("serve.tls-key"), Names: r.List("serve.acme-names"), Email: r.Text("serve.acme-email"),
					Directory: r.Text("serve.acme-directory"), CAFile: r.Text("serve.acme-ca-file"),
				},
			},
		},
	}
	if conf.Get("daemon.account-size").Text != "" {
		if out.AccountBytes = r.Room("daemon.account-size"); out.AccountBytes == 0 {
			out.AccountBytes = -1
		}
	}
	if r.Err != nil {
		return out, r.Err
	}
	if err := image.CheckToolchains(out.Toolchains); err != nil {
		return out, err
	}
	if err := (api.FilePolicy{OffLimits: out.Policy.OffLimits}).Check(); err != nil {
		return out, api.Errorf(api.KindInvalid, "policy.off-limits: %w", err).WithHint("%s", api.HintOf(err))
	}
	if out.Store.URL != "" {
		if err := database.CheckPostgresURL(out.Store.URL); err != nil {
			return out, api.Errorf(api.KindInvalid, "store.url: %w", err).WithHint("%s", api.HintOf(err))
		}
	}
	if err := out.Fleet.check(out.Store); err != nil {
		return out, err
	}
	if out.LayerArchive != "" {
		if _, err := place.Open(out.LayerArchive); err != nil {
			return out, api.Errorf(api.KindInvalid, "daemon.layer-archive: %w", err).WithHint("%s", api.HintOf(err))
		}
	}
	switch archive := r.Text("daemon.snapshot-archive"); {
	case archive == "on" && out.LayerArchive == "":
		return out, api.Errorf(api.KindInvalid, "daemon.snapshot-archive is on, and there is no archive").
			WithHint("set daemon.layer-archive to a directory or an object store (docs/layers.md)")
	case archive != "off":
		out.SnapshotArchive = out.LayerArchive != "" && (archive == "on" || out.Store.URL != "")
	}
	if out.FetchedBytes == 0 {
		out.FetchedBytes = math.MaxInt64
	}
	// In these fields 0 stands for the default.
	if out.Idle == 0 {
		out.Idle = 1
	}
	if out.Pool == 0 {
		out.Pool = -1
	}
	if out.Keep.Age == 0 {
		out.Keep.Age = 1
	}
	if out.DataDir == "" {
		if out.DataDir, err = config.DefaultDataDir(config.Source{Getenv: os.Getenv, UID: os.Getuid()}); err != nil {
			return out, err
		}
	}
	out.Front.TLS.Cache = datadir.Dir(out.DataDir).Path("certificates")
	out.Forges, err = conf.Forges()
	if exe, xerr := os.Executable(); xerr == nil {
		out.Executable = exe
	}
	return out, err
}
