package git

import (
	"os"
	"strconv"
)

// AllowProtocol returns the variable that allows one protocol. By default none is allowed.
func AllowProtocol(protocol string) string { return "GIT_ALLOW_PROTOCOL=" + protocol }

// sshCommand is the user's ssh with its keys, configuration and known hosts. It never
// prompts, rejects unknown hosts, forwards nothing, and starts no control master that
// would outlive the call.
const sshCommand = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=30" +
	" -o ForwardAgent=no -o ForwardX11=no -o ClearAllForwardings=yes -o PermitLocalCommand=no -o ControlMaster=no"

// environ returns the whole environment of a call. Of this process it has only PATH and,
// for ssh, the agent's socket.
func (p *Program) environ(c Call) []string {
	if c.Person != nil {
		return append(personEnviron(c.Person), c.Env...)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + p.Home,
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false",
		"GIT_PROTOCOL_FROM_USER=0",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_ADVICE=0",
		"GIT_MERGE_AUTOEDIT=no",
		"GIT_EDITOR=/bin/false",
		"GIT_PAGER=cat",
		// The maximum size of one allocation: an object that claims to be huge ends git
		// and does not exhaust the memory.
		"GIT_ALLOC_LIMIT=1g",
		// The identity in the reflog of a user's repository. Without it git would look
		// up the host's name.
		"GIT_AUTHOR_NAME=Hortus", "GIT_AUTHOR_EMAIL=hortus@localhost",
		"GIT_COMMITTER_NAME=Hortus", "GIT_COMMITTER_EMAIL=hortus@localhost",
	}
	if c.GitDir == "" {
		// Without GitDir a call must find no repository.
		env = append(env, "GIT_CEILING_DIRECTORIES=/", "GIT_DIR=/dev/null/none")
	}
	if c.SSH {
		env = append(env, "GIT_SSH_COMMAND="+sshCommand, "GIT_SSH_VARIANT=ssh")
		if agent := os.Getenv("SSH_AUTH_SOCK"); agent != "" {
			env = append(env, "SSH_AUTH_SOCK="+agent)
		}
	} else {
		env = append(env, "GIT_SSH_COMMAND=/bin/false")
	}
	protocol := false
	for _, e := range c.Env {
		protocol = protocol || len(e) > 19 && e[:19] == "GIT_ALLOW_PROTOCOL="
	}
	if !protocol {
		env = append(env, AllowProtocol("none"))
	}
	env = append(env, c.Env...)
	config := append(append([]string{}, settings...), c.Config...)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)/2))
	for i := 0; i+1 < len(config); i += 2 {
		n := strconv.Itoa(i / 2)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+config[i], "GIT_CONFIG_VALUE_"+n+"="+config[i+1])
	}
	return env
}

// settings is the configuration of every call. It overrides that of any repository.
var settings = []string{
	"protocol.allow", "never",
	"protocol.version", "2",
	"core.hooksPath", "/dev/null",
	"core.fsmonitor", "false",
	"core.untrackedCache", "false",
	"core.attributesFile", "/dev/null",
	"core.excludesFile", "/dev/null",
	"core.askPass", "/bin/false",
	"core.editor", "/bin/false",
	"core.pager", "cat",
	"core.alternateRefsCommand", "/bin/false",
	"core.gitProxy", "",
	"core.symlinks", "true",
	"core.protectHFS", "true",
	"core.protectNTFS", "true",
	"core.quotePath", "false",
	"core.logAllRefUpdates", "false",
	"core.commitGraph", "false",
	"core.multiPackIndex", "false",
	"core.bigFileThreshold", "64m",
	"core.packedGitLimit", "1g",
	"pack.useBitmaps", "false",
	"pack.threads", "1",
	"pack.windowMemory", "256m",
	"submodule.recurse", "false",
	"fetch.recurseSubmodules", "false",
	"push.recurseSubmodules", "no",
	"push.gpgSign", "false",
	"push.followTags", "false",
	"commit.gpgSign", "false",
	"log.showSignature", "false",
	"i18n.logOutputEncoding", "UTF-8",
	"gc.auto", "0",
	"gc.autoDetach", "false",
	"maintenance.auto", "false",
	"filter.lfs.process", "",
	"filter.lfs.clean", "",
	"filter.lfs.smudge", "",
	"filter.lfs.required", "false",
	"uploadpack.packObjectsHook", "",
	"credential.helper", "",
	"http.followRedirects", "false",
	"http.lowSpeedLimit", "1",
	"http.lowSpeedTime", "60",
	"transfer.fsckObjects", "true",
	"fetch.fsckObjects", "true",
	"receive.fsckObjects", "true",
	// Keep everything that is received in a pack.
	"transfer.unpackLimit", "1",
	"fetch.unpackLimit", "1",
	"fetch.writeCommitGraph", "false",
	"transfer.bundleURI", "false",
	"transfer.credentialsInUrl", "die",
	"advice.detachedHead", "false",
	// Old and harmless mistakes in the history of well-known repositories
	// (docs/decisions/0026): they cannot be repaired without rewriting it.
	"fetch.fsck.zeroPaddedFilemode", "ignore",
	"fetch.fsck.badTimezone", "ignore",
	"fetch.fsck.missingSpaceBeforeDate", "ignore",
	"fetch.fsck.missingSpaceBeforeEmail", "ignore",
	"fetch.fsck.missingNameBeforeEmail", "ignore",
	"fetch.fsck.badDate", "ignore",
}

// personEnviron is the environment of a call that reads a person's configuration. It
// allows no protocol and no program, so that such a call can only read.
func personEnviron(person []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_OPTIONAL_LOCKS=0",
		"GIT_PAGER=cat", "GIT_EDITOR=/bin/false", "GIT_SSH_COMMAND=/bin/false", "GIT_NO_LAZY_FETCH=1", AllowProtocol("none"),
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=false", "GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null"}, person...)
}
