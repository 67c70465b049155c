package sandbox

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/tether"
)

// EgressServer decides on the outgoing connections of sandboxes and makes them.
type EgressServer interface {
	// Resolve validates a policy, and appends the rules of its presets. It returns the
	// environment variables with which programs in the sandbox use the hosts of the
	// presets, such as the address of a package mirror.
	//
	// Errors: KindInvalid for an invalid rule or an unknown preset.
	Resolve(ctx context.Context, p api.EgressPolicy) (_ api.EgressPolicy, env map[string]string, err error)

	// Headers validates header rules, whose secrets are those of an account, and returns them
	// with their defaults.
	//
	// Errors: KindInvalid for a malformed rule, KindNotFound for an unknown secret, and KindDenied
	// for one that is not for headers.
	Headers(ctx context.Context, account string, rules []api.HeaderRule) ([]api.HeaderRule, error)

	// Secrets returns what a sandbox needs to use secrets of an account: rules that allow the
	// hosts of their bindings, and variables that have a fresh placeholder for each secret.
	//
	// Errors: KindNotFound for an unknown secret.
	Secrets(ctx context.Context, account string, grants []api.SecretGrant) (rules []api.EgressRule, env map[string]string, err error)

	// SecretRules returns the rules that a secret of an account needs now, as Secrets does.
	// KindNotFound if there is no such secret.
	SecretRules(ctx context.Context, account, name string) ([]api.EgressRule, error)

	// Serve begins to serve the connections of a sandbox by the policy and the ceiling in its
	// row, until the session is closed, and lets it use the secrets in its row, whose
	// placeholders are in its environment. It returns at once, without I/O. commands returns
	// the commands that are running in the sandbox.
	Serve(s api.Sandbox, link tether.Link, commands func() []string) EgressSession
}

// EgressSession serves the connections of one sandbox.
type EgressSession interface {
	// Hold replaces which secrets the sandbox may use by those in its row. The next Apply makes
	// it so. Without I/O.
	Hold(s api.Sandbox)
	// Apply replaces the policy. Connections that it does not allow are closed. If it allows
	// anything, Apply makes the programs of the sandbox trust the certificate authority of
	// its lineage first.
	Apply(ctx context.Context, p api.EgressPolicy) error
	// Close closes every connection and returns when none is left.
	Close()
}
