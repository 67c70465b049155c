package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Kind is what a setting's text must be.
type Kind string

const (
	Text     Kind = "text"     // anything that is not empty
	Path     Kind = "path"     // an absolute path
	Place    Kind = "place"    // an absolute path, or an address with ://
	Choice   Kind = "choice"   // one of Setting.Allowed
	Switch   Kind = "switch"   // true or false
	Size     Kind = "size"     // see ParseSize
	Room     Kind = "room"     // a size, or 0 for none
	Duration Kind = "duration" // see ParseDuration
	Stay     Kind = "stay"     // a duration, 0, or "never"
	Count    Kind = "count"    // a whole number from Min to Max
	Number   Kind = "number"   // a number from Min to Max; above 0 if Min is 0
	List     Kind = "list"     // texts with commas between them; may be empty
	Secret   Kind = "secret"   // the name of a secret of the operator
)

// Setting is one thing that can be set.
type Setting struct {
	// Key names it in the file: "section.name", or "name" at the top.
	Key string
	// Env is its variable, Flag its flag without the dashes; a setting of the
	// daemon alone has no flag.
	Env, Flag string
	// Default is the text of the default value; empty if there is none.
	Default string
	Kind    Kind
	// Allowed is the closed set of a Choice.
	Allowed  []string
	Min, Max int64
	Help     string
	// Daemon is true if the daemon applies what the file says, although there is a flag: the flag is for one request.
	Daemon bool
}

// Settings lists all settings, in the order of showing.
func Settings() []Setting {
	limits := api.DefaultLimits()
	return []Setting{
		{Key: "data-dir", Env: "HORTUS_DATA_DIR", Flag: "data-dir", Kind: Path, Help: "data directory"},
		{Key: "log-level", Env: "HORTUS_LOG_LEVEL", Flag: "log-level", Default: "info", Kind: Choice, Allowed: Levels(), Help: "minimum level of log messages on stderr and in the daemon's log"},
		{Key: "quiet", Env: "HORTUS_QUIET", Flag: "quiet", Default: "false", Kind: Switch, Help: "print output and errors only"},
		{Key: "daemon.idle", Env: "HORTUS_IDLE", Default: "3s", Kind: Stay, Help: "time after which an unused daemon exits, or never"},
		{Key: "daemon.pool", Env: "HORTUS_POOL", Default: "2", Kind: Count, Max: 1000, Help: "number of guests of each kind that are booted ahead of requests; 0 for none"},
		{Key: "daemon.drain", Env: "HORTUS_DRAIN", Default: "5s", Kind: Stay, Help: "time that attached commands may continue after a signal stops the daemon, and that its sandboxes have to move to other nodes of a fleet; never waits for all of them"},
		{Key: "daemon.max-sandboxes", Env: "HORTUS_MAX_SANDBOXES", Default: "1000", Kind: Count, Min: 1, Max: 1 << 20, Help: "maximum number of sandboxes at a time; further requests wait"},
		{Key: "daemon.candidates", Env: "HORTUS_CANDIDATES", Default: "8", Kind: Count, Min: 1, Max: 1 << 10, Help: "maximum number of candidates of one task (--best-of) that work at a time; the others wait"},
		{Key: "daemon.memory-share", Env: "HORTUS_MEMORY_SHARE", Default: "0.8", Kind: Number, Max: 1, Help: "fraction of the host's memory for sandboxes"},
		{Key: "daemon.overcommit", Env: "HORTUS_OVERCOMMIT", Default: "8", Kind: Number, Max: 10_000, Help: "overcommit factor for memory and disk"},
		{Key: "daemon.cpu-overcommit", Env: "HORTUS_CPU_OVERCOMMIT", Default: "64", Kind: Number, Max: 10_000, Help: "overcommit factor for processors"},
		{Key: "daemon.patience", Env: "HORTUS_PATIENCE", Default: "10m", Kind: Duration, Max: int64(24 * time.Hour), Help: "maximum time that a request for a sandbox waits for capacity"},
		{Key: "daemon.follow-every", Env: "HORTUS_FOLLOW_EVERY", Default: "1m", Kind: Duration, Max: int64(24 * time.Hour), Help: "time between two looks at the merge requests of a plan that is followed (hortus plan start --follow)"},
		{Key: "daemon.keep-rows", Env: "HORTUS_KEEP_ROWS", Default: "10000", Kind: Count, Min: 1, Max: 1 << 30, Help: "maximum number of ended sandboxes, and of finished tasks, whose records are kept for each account; ten times as many commands"},
		{Key: "daemon.keep-ended", Env: "HORTUS_KEEP_ENDED", Default: "30d", Kind: Stay, Help: "retention of records of ended sandboxes, tasks and commands; never limits them by number only"},
		{Key: "daemon.layer-size", Env: "HORTUS_LAYER_SIZE", Default: "20GiB", Kind: Room, Help: "maximum size of all layers; those not used for the longest time are removed, but never one in use; 0 for no limit"},
		{Key: "daemon.account-size", Env: "HORTUS_ACCOUNT_SIZE", Kind: Room, Help: "maximum size of all that the keys of one account store: workspaces, snapshots, output and events of tasks, sessions; 0 for no limit (default: half of the file system of the data directory)"},
		{Key: "daemon.layer-archive", Env: "HORTUS_LAYER_ARCHIVE", Kind: Place, Help: "directory, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION, for portable copies of layers, and for workspaces that hosts share, which trust each other; default: none"},
		{Key: "daemon.snapshot-archive", Env: "HORTUS_SNAPSHOT_ARCHIVE", Default: "auto", Kind: Choice, Allowed: []string{"auto", "on", "off"}, Help: "store a copy of each snapshot and of each sandbox that is paused to disk in daemon.layer-archive, encrypted, from which other daemons with the same database start; auto is on with store.url"},
		{Key: "daemon.fetched-size", Env: "HORTUS_FETCHED_SIZE", Default: "20GiB", Kind: Room, Help: "maximum size of snapshots that were fetched from daemon.layer-archive; those not used for the longest time are removed, but never one in use; 0 for no limit"},
		{Key: "daemon.request-rate", Env: "HORTUS_REQUEST_RATE", Default: "1000", Kind: Number, Max: 1e9, Help: "maximum number of requests per second with one user's API key"},
		{Key: "daemon.create-rate", Env: "HORTUS_CREATE_RATE", Default: "200", Kind: Number, Max: 1e9, Help: "maximum number of sandboxes, snapshots, templates and tasks that one user's API key can create per second"},
		{Key: "daemon.toolchains", Env: "HORTUS_TOOLCHAINS", Default: "auto", Kind: List, Help: "toolchains of the home directory and /opt that sandboxes have, read-only: auto for those that /usr lacks, none, or names such as auto,rust@nightly,node@20; hortus doctor lists what there is"},
		{Key: "daemon.runsc", Env: "HORTUS_RUNSC", Kind: Path, Help: "gVisor executable to use instead of the embedded one"},
		{Key: "docker.host", Env: "HORTUS_DOCKER_HOST", Kind: Text, Help: "address of the Docker engine for sandboxes with the isolation docker: unix://PATH, tcp://HOST:PORT or ssh://USER@HOST (default: DOCKER_HOST, or that of the system's engine)"},
		{Key: "docker.certificates", Env: "HORTUS_DOCKER_CERTIFICATES", Kind: Text, Help: "directory with ca.pem, cert.pem and key.pem for an engine at tcp://HOST:PORT (default: DOCKER_CERT_PATH)"},
		{Key: "docker.runtime", Env: "HORTUS_DOCKER_RUNTIME", Kind: Text, Help: "runtime of the Docker engine for sandboxes (default: the engine's own)"},
		{Key: "microvm.emulate", Env: "HORTUS_MICROVM_EMULATE", Default: "false", Kind: Switch, Help: "let QEMU emulate the processor of sandboxes with the isolation microvm on a host without KVM: many times slower, not a security boundary, and for tests"},
		{Key: "daemon.serve", Env: "HORTUS_DAEMON_SERVE", Default: "false", Kind: Switch, Help: "serve HTTP on serve.listen from a daemon that never exits when idle, as in the systemd unit"},
		{Key: "store.url", Env: "HORTUS_STORE_URL", Flag: "store", Kind: Text, Help: "Postgres database for the rows, such as postgres://hortus@db.example.org/hortus, without a password (default: a SQLite file in the data directory)"},
		{Key: "store.password-file", Env: "HORTUS_STORE_PASSWORD_FILE", Kind: Path, Help: "file with the password of that database's user (default: PGPASSWORD in the environment)"},
		{Key: "store.key-file", Env: "HORTUS_STORE_KEY_FILE", Kind: Path, Help: "file with the key that encrypts secrets in that database, the same for each daemon that uses it; it is created if it does not exist (default: hortus.db-key in the data directory)"},
		{Key: "fleet.name", Env: "HORTUS_FLEET_NAME", Kind: Text, Help: "name of this node among those that share the database, unique (default: the name of the host)"},
		{Key: "fleet.listen", Env: "HORTUS_FLEET_LISTEN", Kind: Text, Help: "address that other nodes connect to, with TLS and certificates of nodes only, such as :7071; needs store.url (default: none, for a node alone)"},
		{Key: "fleet.address", Env: "HORTUS_FLEET_ADDRESS", Kind: Text, Help: "HOST:PORT at which other nodes reach fleet.listen (default: the address that it listens on, or the name of the host and its port)"},
		{Key: "serve.listen", Env: "HORTUS_LISTEN", Flag: "listen", Default: "127.0.0.1:7070", Kind: Text, Help: "address that hortus serve listens on"},
		{Key: "serve.insecure-listen", Env: "HORTUS_INSECURE_LISTEN", Flag: "insecure-listen", Default: "false", Kind: Switch, Help: "allow a listen address that other machines can reach, without encryption"},
		{Key: "serve.tls-cert", Env: "HORTUS_TLS_CERT", Flag: "tls-cert", Kind: Path, Help: "PEM file with the certificate of hortus serve and its intermediate ones; it is read again when it changes (default: no TLS)"},
		{Key: "serve.tls-key", Env: "HORTUS_TLS_KEY", Flag: "tls-key", Kind: Path, Help: "PEM file with the key of that certificate"},
		{Key: "serve.acme-names", Env: "HORTUS_ACME_NAMES", Flag: "acme-names", Kind: List, Help: "host names that hortus serve obtains a certificate for, with ACME, instead of tls-cert; this accepts the terms of the certificate authority"},
		{Key: "serve.acme-email", Env: "HORTUS_ACME_EMAIL", Kind: Text, Help: "email address for notices of the certificate authority (default: none)"},
		{Key: "serve.acme-directory", Env: "HORTUS_ACME_DIRECTORY", Kind: Text, Help: "URL of the ACME directory of the certificate authority (default: Let's Encrypt)"},
		{Key: "serve.acme-ca-file", Env: "HORTUS_ACME_CA_FILE", Kind: Path, Help: "PEM file with the certificate authorities of that URL, instead of those of this machine"},
		{Key: "serve.redirect-listen", Env: "HORTUS_REDIRECT_LISTEN", Flag: "redirect-listen", Kind: Text, Help: "second address, without TLS, that leads browsers to the first one and answers ACME, such as :80 (default: none)"},
		{Key: "serve.domain", Env: "HORTUS_DOMAIN", Flag: "domain", Kind: Text, Help: "domain whose names PORT-ID.DOMAIN lead to the ports of sandboxes, with :PORT if it is not 443 (default: localhost, for browsers on this machine)"},
		{Key: "serve.origins", Env: "HORTUS_ORIGINS", Kind: List, Help: "origins of web pages that may use the HTTP API with an API key, such as https://app.example.org (default: none)"},
		{Key: "serve.public-url", Env: "HORTUS_PUBLIC_URL", Flag: "public-url", Kind: Text, Help: "URL of this daemon for clients on other machines, such as https://hortus.example.org: MCP clients can then sign in with OAuth (default: none)"},
		{Key: "oidc.issuer", Env: "HORTUS_OIDC_ISSUER", Kind: Text, Help: "URL of the provider of OpenID Connect that people sign in to the console with, such as https://id.example.org/realms/team; needs serve.public-url (default: none)"},
		{Key: "oidc.client-id", Env: "HORTUS_OIDC_CLIENT_ID", Kind: Text, Help: "ID of the client that is registered at the provider"},
		{Key: "oidc.secret", Env: "HORTUS_OIDC_SECRET", Kind: Secret, Help: "name of the secret with the client secret (default: a client without one)"},
		{Key: "oidc.scopes", Env: "HORTUS_OIDC_SCOPES", Default: "email, profile", Kind: List, Help: "scopes that are asked for besides openid"},
		{Key: "oidc.domains", Env: "HORTUS_OIDC_DOMAINS", Kind: List, Help: "domains of e-mail addresses that may sign in (default: all)"},
		{Key: "oidc.claim", Env: "HORTUS_OIDC_CLAIM", Default: "groups", Kind: Text, Help: "claim of the ID token whose values oidc.rules are about"},
		{Key: "oidc.rules", Env: "HORTUS_OIDC_RULES", Kind: List, Help: "accounts and roles of people, VALUE=ACCOUNT or VALUE=ACCOUNT:ROLE: the first rule whose VALUE the claim has applies; * is everybody of oidc.domains"},
		{Key: "egress.proxy", Env: "HORTUS_EGRESS_PROXY", Kind: Text, Help: "HTTP proxy for outgoing connections of sandboxes, such as http://proxy.example.org:3128; there is no direct fallback"},
		{Key: "egress.ca-file", Env: "HORTUS_EGRESS_CA_FILE", Kind: Path, Help: "PEM file with certificate authorities that servers of outgoing connections may have, besides those of this machine"},
		{Key: "egress.cache-size", Env: "HORTUS_EGRESS_CACHE_SIZE", Default: "5GiB", Kind: Room, Help: "maximum size of the package cache; 0 for none"},
		{Key: "egress.e2b-internet", Env: "HORTUS_EGRESS_E2B_INTERNET", Default: "false", Kind: Switch, Help: "allow all public hosts to sandboxes of E2B clients that do not restrict them, as E2B does"},
		{Key: "gvisor.build", Env: "HORTUS_GVISOR_BUILD", Default: "auto", Kind: Choice, Allowed: []string{"auto", "never"}, Help: "whether a binary without gVisor builds it in the background after the first verified task"},
		{Key: "gvisor.copy-memory", Env: "HORTUS_GVISOR_COPY_MEMORY", Default: "false", Kind: Switch, Help: "give each sandbox that is forked or started from a snapshot memory of its own from the start, as gVisor itself does, instead of sharing it"},
		{Key: "e2b.key-secret", Env: "HORTUS_E2B_KEY_SECRET", Kind: Secret, Help: "secret with the API key of the service that sandboxes of --isolation e2b run at (default: none, and no such sandboxes)"},
		{Key: "e2b.api-url", Env: "HORTUS_E2B_API_URL", Default: "https://api.e2b.app", Kind: Text, Help: "URL of the API of that service: E2B, or another Hortus"},
		{Key: "e2b.domain", Env: "HORTUS_E2B_DOMAIN", Default: "e2b.app", Kind: Text, Help: "domain of the names PORT-ID.DOMAIN of its sandboxes' ports"},
		{Key: "e2b.sandbox-url", Env: "HORTUS_E2B_SANDBOX_URL", Kind: Text, Help: "URL of all its sandboxes, which are named by headers, instead of e2b.domain; another Hortus has that of its API"},
		{Key: "e2b.template", Env: "HORTUS_E2B_TEMPLATE", Default: "base", Kind: Text, Help: "template of its sandboxes"},
		{Key: "e2b.internet", Env: "HORTUS_E2B_INTERNET", Default: "false", Kind: Switch, Help: "let its sandboxes connect to everything that the service allows; otherwise they have no network"},
		{Key: "daytona.key-secret", Env: "HORTUS_DAYTONA_KEY_SECRET", Kind: Secret, Help: "secret with the API key of Daytona, where sandboxes of --isolation daytona run (default: none, and no such sandboxes)"},
		{Key: "daytona.api-url", Env: "HORTUS_DAYTONA_API_URL", Default: "https://app.daytona.io/api", Kind: Text, Help: "URL of the API of Daytona"},
		{Key: "daytona.domains", Env: "HORTUS_DAYTONA_DOMAINS", Default: "daytona.io, daytona.work", Kind: List, Help: "domains of the URLs that the API gives for sandboxes; others are refused"},
		{Key: "daytona.snapshot", Env: "HORTUS_DAYTONA_SNAPSHOT", Kind: Text, Help: "snapshot that its sandboxes start from (default: that of Daytona)"},
		{Key: "daytona.internet", Env: "HORTUS_DAYTONA_INTERNET", Default: "false", Kind: Switch, Help: "let its sandboxes connect to everything that Daytona allows; otherwise they have no network"},
		{Key: "kubernetes.namespace", Env: "HORTUS_KUBERNETES_NAMESPACE", Kind: Text, Help: "namespace of the pods of --isolation kubernetes (default: none, and no such sandboxes)"},
		{Key: "kubernetes.kubeconfig", Env: "HORTUS_KUBERNETES_KUBECONFIG", Kind: Path, Help: "kubeconfig with a token or a certificate (default: the service account of the daemon's own pod)"},
		{Key: "kubernetes.image", Env: "HORTUS_KUBERNETES_IMAGE", Kind: Text, Help: "image that its sandboxes start from; it needs sh, tar and GNU find"},
		{Key: "kubernetes.guest-image", Env: "HORTUS_KUBERNETES_GUEST_IMAGE", Kind: Text, Help: "image that has the guest of this version as /hortus-guest"},
		{Key: "kubernetes.guest-url", Env: "HORTUS_KUBERNETES_GUEST_URL", Kind: Text, Help: "address at which guests in pods reach this daemon, such as https://10.0.0.7:7443"},
		{Key: "kubernetes.listen", Env: "HORTUS_KUBERNETES_LISTEN", Default: ":7443", Kind: Text, Help: "address of the listener for guests in pods"},
		{Key: "kubernetes.runtime-class", Env: "HORTUS_KUBERNETES_RUNTIME_CLASS", Kind: Text, Help: "RuntimeClass of its pods, such as gvisor (default: that of the cluster)"},
		{Key: "kubernetes.daemon-labels", Env: "HORTUS_KUBERNETES_DAEMON_LABELS", Kind: List, Help: "labels KEY=VALUE of the daemon's own pod, for the network policy of its pods (default: the policy names the IP address of kubernetes.guest-url)"},
		{Key: "kubernetes.cpu-overcommit", Env: "HORTUS_KUBERNETES_CPU_OVERCOMMIT", Default: "1", Kind: Number, Min: 1, Max: 10_000, Help: "factor by which a pod requests fewer processors than its limit; 1 requests the limit"},
		{Key: "kubernetes.internet", Env: "HORTUS_KUBERNETES_INTERNET", Default: "false", Kind: Switch, Help: "let its sandboxes connect to everything that the cluster allows; otherwise they have no network"},
		{Key: "sandbox.isolation", Env: "HORTUS_ISOLATION", Flag: "isolation", Default: "auto", Kind: Choice, Allowed: Isolations(), Daemon: true, Help: "isolation of sandboxes if neither the request nor the repository, the template or the API key has one; docs/isolation.md"},
		{Key: "sandbox.template", Env: "HORTUS_TEMPLATE", Flag: "template", Default: "host", Kind: Text, Help: "template of new sandboxes"},
		{Key: "sandbox.image", Env: "HORTUS_IMAGE", Flag: "image", Kind: Text, Help: "container image of new sandboxes instead of a template: a reference such as python:3.12, or an absolute path of an archive or a layout"},
		{Key: "sandbox.ttl", Env: "HORTUS_TTL", Flag: "ttl", Default: showDuration(api.DefaultTTL), Kind: Duration, Max: int64(api.MaxTTL), Help: "time to live of a sandbox"},
		{Key: "sandbox.memory", Env: "HORTUS_MEMORY", Flag: "memory", Default: showSize(limits.MemoryBytes), Kind: Size, Help: "memory limit of all processes together"},
		{Key: "sandbox.cpus", Env: "HORTUS_CPUS", Flag: "cpus", Default: strconv.FormatFloat(limits.CPUs, 'g', -1, 64), Kind: Number, Max: 1 << 16, Help: "processor limit; 0.5 is half a processor"},
		{Key: "sandbox.cpu-time", Env: "HORTUS_CPU_TIME", Flag: "cpu-time", Kind: Duration, Help: "limit of the total processor time"},
		{Key: "sandbox.pids", Env: "HORTUS_PIDS", Flag: "pids", Default: strconv.FormatInt(limits.Processes, 10), Kind: Count, Min: 64, Max: 1 << 22, Help: "maximum number of processes and threads"},
		{Key: "sandbox.disk", Env: "HORTUS_DISK", Flag: "disk", Default: showSize(limits.DiskBytes), Kind: Size, Help: "disk limit"},
		{Key: "sandbox.output-limit", Env: "HORTUS_OUTPUT_LIMIT", Flag: "output-limit", Kind: Size, Help: "output limit of one command"},
		{Key: "sandbox.egress", Env: "HORTUS_EGRESS", Flag: "egress", Kind: List, Help: "what sandboxes may connect to: none, a preset such as npm, or hosts"},
		{Key: "task.model", Env: "HORTUS_MODEL", Flag: "model", Default: "offline", Kind: Text, Help: "model of every role; if it is not set, a model that is at hand"},
		{Key: "task.small-model", Env: "HORTUS_SMALL_MODEL", Flag: "small-model", Kind: Text, Help: "model for summaries and research of the agent of a repository (default: its own)"},
		{Key: "task.attempts", Env: "HORTUS_ATTEMPTS", Flag: "attempts", Default: strconv.Itoa(api.DefaultAttempts), Kind: Count, Min: 1, Max: api.MaxAttempts, Help: "maximum number of attempts"},
		{Key: "task.timeout", Env: "HORTUS_TIMEOUT", Flag: "timeout", Default: showDuration(api.DefaultRunTimeout), Kind: Duration, Help: "timeout of the program"},
		{Key: "task.install-timeout", Env: "HORTUS_INSTALL_TIMEOUT", Flag: "install-timeout", Default: showDuration(api.DefaultInstallTimeout), Kind: Duration, Help: "timeout of install and compile"},
		{Key: "task.setup-egress", Env: "HORTUS_SETUP_EGRESS", Flag: "setup-egress", Kind: List, Help: "what the install command of a program may connect to (default: the package registry of its language); none, a preset such as npm, or hosts"},
		{Key: "task.rounds", Env: "HORTUS_ROUNDS", Flag: "rounds", Default: strconv.Itoa(api.DefaultRounds), Kind: Count, Max: api.MaxRounds, Help: "maximum number of repair rounds after a failed gate"},
		{Key: "task.steps", Env: "HORTUS_STEPS", Flag: "steps", Default: strconv.Itoa(api.DefaultSteps), Kind: Count, Min: 1, Max: 1 << 20, Help: "maximum number of model calls"},
		{Key: "task.tokens", Env: "HORTUS_TOKENS", Flag: "tokens", Default: strconv.Itoa(api.DefaultTokens), Kind: Count, Min: 1, Max: 1 << 50, Help: "maximum number of tokens, input and output"},
		{Key: "task.cost", Env: "HORTUS_COST", Flag: "cost", Kind: Number, Max: 1e6, Help: "maximum cost of the model, in US dollars"},
		{Key: "task.wall", Env: "HORTUS_WALL", Flag: "wall", Default: showDuration(api.DefaultWall), Kind: Duration, Help: "timeout of a task on a repository"},
		{Key: "task.author", Env: "HORTUS_AUTHOR", Flag: "author", Kind: Text, Help: "author of the commits: NAME <EMAIL> (default: as set in git)"},
		{Key: "model.anthropic-key-secret", Env: "HORTUS_ANTHROPIC_KEY_SECRET", Kind: Secret, Help: "secret with the API key for anthropic, instead of ANTHROPIC_API_KEY"},
		{Key: "model.openai-key-secret", Env: "HORTUS_OPENAI_KEY_SECRET", Kind: Secret, Help: "secret with the API key for openai, instead of OPENAI_API_KEY"},
		{Key: "model.embedding", Env: "HORTUS_EMBEDDING_MODEL", Kind: Text, Help: "embedding model that searches lessons by their meaning, openai:MODEL at OPENAI_BASE_URL, which is sent what failed (default: none)"},
		{Key: "model.embedding-similarity", Env: "HORTUS_EMBEDDING_SIMILARITY", Default: "0.6", Kind: Number, Max: 1, Help: "cosine similarity from which the embedding model's vectors of two failures count as alike"},
		{Key: "policy.branch", Env: "HORTUS_POLICY_BRANCH", Default: "hortus/*", Kind: Text, Help: "pattern of the branches that may be pushed"},
		{Key: "policy.protected", Env: "HORTUS_POLICY_PROTECTED", Default: "main, master, trunk, develop, release, release/**, production, stable", Kind: List, Help: "patterns of branches that are never pushed to"},
		{Key: "policy.max-files", Env: "HORTUS_POLICY_MAX_FILES", Kind: Count, Min: 1, Max: 1 << 20, Help: "maximum number of changed files"},
		{Key: "policy.max-lines", Env: "HORTUS_POLICY_MAX_LINES", Kind: Count, Min: 1, Max: 1 << 30, Help: "maximum number of added and deleted lines"},
		{Key: "policy.forbidden", Env: "HORTUS_POLICY_FORBIDDEN", Kind: List, Help: "patterns of paths that a delivery must not change (default: files that CI and tools run without review)"},
		{Key: "policy.targets", Env: "HORTUS_POLICY_TARGETS", Kind: List, Help: "patterns of the branches that merge requests may aim at (default: all)"},
		{Key: "policy.draft", Env: "HORTUS_POLICY_DRAFT", Default: "false", Kind: Switch, Help: "open every merge request as a draft"},
		{Key: "policy.off-limits", Env: "HORTUS_POLICY_OFF_LIMITS", Default: strings.Join(api.DefaultOffLimits(), ", "), Kind: List, Help: "globs of files that sandboxes of tasks on repositories do not have, before those of --off-limits; ! begins an exception"},
		{Key: "policy.allow", Env: "HORTUS_POLICY_ALLOW", Kind: List, Help: "patterns of paths that a delivery may change although they are forbidden"},
	}
}

// Levels lists the log levels, the most talkative first.
func Levels() []string { return []string{"debug", "info", "warn", "error"} }

// Isolations lists the backends' names, and auto.
func Isolations() []string {
	return []string{"auto", "gvisor", "container", "docker", "microvm", "wasm", "process", "e2b", "daytona", "kubernetes"}
}

// Check reports whether a text makes sense as the setting's value. The error is of
// KindInvalid and says what is allowed; it does not name the setting.
func (s Setting) Check(text string) *api.Error {
	bad := func(want string) *api.Error {
		return api.Errorf(api.KindInvalid, "%.80q is not %s", text, want)
	}
	switch s.Kind {
	case Text:
		if text == "" || strings.ContainsFunc(text, unprintable) {
			return bad("a name")
		}
	case Secret:
		if !api.ValidSecretName(text) {
			// It may be a value: it is not repeated.
			return api.Errorf(api.KindInvalid, "this is not the name of a secret").WithHint("list them: hortus secret ls; a value is never in the configuration")
		}
	case Path, Place:
		if text == "" || strings.ContainsRune(text, 0) {
			return bad("a path")
		}
	case List:
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" && text != "" || strings.ContainsFunc(item, unprintable) {
				return bad("a list of patterns with commas between them")
			}
		}
	case Choice:
		if !slices.Contains(s.Allowed, text) {
			e := bad("one of " + strings.Join(s.Allowed, ", "))
			if n := nearest(text, s.Allowed); n != "" {
				e = e.WithHint("did you mean %s?", n)
			}
			return e
		}
	case Switch:
		if text != "true" && text != "false" {
			return bad("a boolean")
		}
	case Size, Room:
		if s.Kind == Room && text == "0" {
			return nil
		}
		if _, err := ParseSize(text); err != nil {
			return api.AsError(err)
		}
	case Duration, Stay:
		if s.Kind == Stay && (text == Never || text == "0" || text == "0s") {
			return nil
		}
		d, err := ParseDuration(text)
		if err != nil {
			return api.AsError(err)
		}
		if s.Max > 0 && int64(d) > s.Max {
			return bad("at most " + showDuration(time.Duration(s.Max)))
		}
	case Count:
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < s.Min || n > s.Max {
			return bad("a whole number from " + strconv.FormatInt(s.Min, 10) + " to " + strconv.FormatInt(s.Max, 10))
		}
	case Number:
		switch f, err := strconv.ParseFloat(text, 64); {
		case err == nil && f > 0 && f >= float64(s.Min) && f <= float64(s.Max):
		case s.Min > 0:
			return bad("a number from " + strconv.FormatInt(s.Min, 10) + " to " + strconv.FormatInt(s.Max, 10))
		default:
			return bad("a number above 0, at most " + strconv.FormatInt(s.Max, 10))
		}
	}
	return nil
}

func unprintable(r rune) bool { return r < 0x20 || r == 0x7f }

// nearest returns the name that a mistyped one was perhaps to be, or "".
func nearest(name string, names []string) string {
	best, least := "", len(name)/3+2
	for _, n := range names {
		if d := distance(strings.ToLower(name), n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour that make b of a. Names longer than any of ours are far from all.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
