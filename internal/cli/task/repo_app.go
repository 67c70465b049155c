package task

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/client"
	"hortus.dev/internal/cli/human"
)

// appFlags name a GitHub App, in place of a token.
type appFlags struct {
	App             int64  `placeholder:"ID" help:"App ID of a GitHub App that is installed for the repository, in place of a token."`
	AppKey          string `name:"app-key" complete:"files" placeholder:"FILE" help:"File with the app's private key (.pem). It is stored as the secret that --token-secret names (default github-app-ID), which no sandbox gets. Without it, that secret must have the key."`
	AppInstallation int64  `name:"app-installation" placeholder:"ID" help:"Installation of the app (default: the one that has the repository)."`
}

// maxAppKey is the maximum size of the file of a private key, in bytes.
const maxAppKey = 32 << 10

// credential returns the secret and the app that a command was given. A key in a file becomes a secret, which undo removes again.
func (f appFlags) credential(ctx context.Context, cl *client.Client, secret string) (_ string, _ *api.GitHubApp, undo func(), err error) {
	undo = func() {}
	switch {
	case f.App == 0 && (f.AppKey != "" || f.AppInstallation != 0):
		return "", nil, undo, api.Errorf(api.KindInvalid, "--app is missing").WithHint("give the App ID, a number in the settings of the app at GitHub")
	case f.App == 0:
		return secret, nil, undo, nil
	case f.App < 0 || f.AppInstallation < 0:
		return "", nil, undo, api.Errorf(api.KindInvalid, "--app and --app-installation are numbers above 0")
	case secret == "" && f.AppKey == "":
		return "", nil, undo, api.Errorf(api.KindInvalid, "the private key of GitHub App %d is missing", f.App).WithHint("give its file with --app-key, or a secret that has it with --token-secret")
	}
	app := &api.GitHubApp{ID: f.App, Installation: f.AppInstallation}
	if f.AppKey == "" {
		return secret, app, undo, nil
	}
	key, err := readKey(f.AppKey)
	if err != nil {
		return "", nil, undo, err
	}
	if secret == "" {
		secret = fmt.Sprintf("github-app-%d", f.App)
	}
	_, err = cl.Secrets.Set(ctx, secret, secrets.Set{Value: key, Version: 1, Metadata: map[string]string{"for": "repository"}})
	if api.KindOf(err) == api.KindExists {
		return "", nil, undo, api.Errorf(api.KindExists, "there is a secret %s already", secret).
			WithHint("if it has the key of the app, leave --app-key out and give --token-secret %s; otherwise give another name with --token-secret", secret)
	}
	if err != nil {
		return "", nil, undo, err
	}
	return secret, app, func() { _, _ = cl.Secrets.Remove(context.WithoutCancel(ctx), secret) }, nil // the first error is the one that counts
}

// readKey reads the file of a private key into one line, as secrets have it.
func readKey(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "--app-key: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxAppKey+1))
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "--app-key: %w", err)
	}
	if len(b) > maxAppKey || !strings.HasPrefix(strings.TrimSpace(string(b)), "-----BEGIN ") {
		return "", api.Errorf(api.KindInvalid, "--app-key: %.200s is no private key in PEM", path).WithHint("use the .pem file that GitHub makes in the settings of the app, under Private keys")
	}
	return strings.Join(strings.Fields(string(b)), " "), nil
}

// credentialOf says what a repository is reached with.
func credentialOf(r api.Repository) string {
	switch {
	case r.App != nil:
		return fmt.Sprintf("GitHub App %d, its key is in secret %s", r.App.ID, r.Secret)
	case r.Secret != "":
		return human.Prefixed("secret ", r.Secret)
	}
	return "the credentials of the daemon"
}
