package e2b

import "hortus.dev/internal/platform/lazyregexp"

// phrases turn what hints say to people at the command line of Hortus into what a client of
// this wire can do. The first that matches a part wins it.
var phrases = []struct {
	re   *lazyregexp.Regexp
	text string
}{
	{lazyregexp.New(`take a snapshot of the files instead, or pause the sandbox in memory`),
		"pause it with keepMemory: false, which keeps only the files; the operator of this server can set HORTUS_ISOLATION=auto if gVisor is available"},
	{lazyregexp.New(`--files-only`), "keepMemory: false"},
	{lazyregexp.New(`hortus sandbox resume [\w-]+`), "Sandbox.connect()"},
	{lazyregexp.New(`hortus sandbox snapshot [\w-]+`), "createSnapshot()"},
	{lazyregexp.New(`let the sandbox use it there with --secret [\w.-]+, or set another one: `), "make another one: "},
	{lazyregexp.New(`hortus secret set [\w.-]+ --for-headers`), "Secret.create()"},
	{lazyregexp.New(`\$\{secret:NAME\}`), "$${e2b.secrets.NAME}"},
	{lazyregexp.New(`hortus sandbox cp`), "files.read()"},
	{lazyregexp.New(`hortus sandbox exec [\w-]+ -- \w+`), "commands.run()"},
	{lazyregexp.New(`hortus sandbox kill [\w-]+`), "Sandbox.kill()"},
	{lazyregexp.New(`hortus template ls lists what is here; `), ""},
	{lazyregexp.New(`hortus template create NAME --from-image \./image\.tar`), "the operator of this server"},
	{lazyregexp.New(`To allow them: --egress .*`), "The operator of this server can allow them for all"},
	{lazyregexp.New(`hortus template create \w+ --from-image \S+`), "the operator of this server can pull the image again"},
	{lazyregexp.New(`use it \(--workspace [\w-]+\), `), ""},
	{lazyregexp.New(`hortus sandbox (?:ls|show)(?: --?[\w-]+| [\w-]+)*`), "Sandbox.list()"},
	{lazyregexp.New(`(?:run )?hortus (doctor|df|gc)( to [^,;.]+| (?:lists|removes|shows) [^,;.]+)?`), "the operator of this server can run hortus $1"},
	{lazyregexp.New(`On Debian: apt-get download .*hortus microvm install --file \S+`), "the operator of this server can install a kernel for virtual machines"},
	{lazyregexp.New(`--ttl\b`), "timeoutMs"},
	{lazyregexp.New(`--env\b`), "envs"},
	{lazyregexp.New(`--label\b`), "metadata"},
	{lazyregexp.New(`--template\b`), "the template"},
	{lazyregexp.New(`--isolation \w+`), "another isolation, set by the operator of this server"},
	{lazyregexp.New(`--(?:memory|cpus|pids|disk)\b`), "a template with other limits"},
}

// translateHint replaces the names of Hortus in a hint by those of this protocol.
func translateHint(hint string) string {
	for _, w := range phrases {
		hint = w.re.ReplaceAllString(hint, w.text)
	}
	return hint
}
