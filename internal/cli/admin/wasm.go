package admin

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// WasmCommand is "hortus wasm".
type WasmCommand struct {
	Install wasmInstallCmd `cmd:"" help:"Install an interpreter for wasm sandboxes."`
}

type wasmInstallCmd struct {
	Name   string `arg:"" enum:"python" help:"Interpreter: python. JavaScript is built in."`
	File   string `complete:"files" placeholder:"FILE" help:"WASI module to install: a build of CPython for wasm32-wasip1 with its library in one file."`
	URL    string `name:"url" placeholder:"URL" help:"URL (https) of the module, instead of a file."`
	SHA256 string `name:"sha256" placeholder:"DIGEST" help:"SHA-256 of the module in hexadecimal digits. Required with --url."`
}

// OnlyHere returns the name of a command that works on this machine only.
func (*wasmInstallCmd) OnlyHere() string { return "hortus wasm install" }

// Run installs an interpreter into the data directory. New sandboxes use it.
func (c *wasmInstallCmd) Run(ctx app.Context, a *app.App) error {
	if (c.File == "") == (c.URL == "") {
		return api.Errorf(api.KindInvalid, "one of --file and --url is required").
			WithHint("hortus wasm install python --file python.wasm")
	}
	if c.URL != "" && (c.SHA256 == "" || !strings.HasPrefix(c.URL, "https://")) {
		return api.Errorf(api.KindInvalid, "--url needs an https URL and --sha256: a module from a network is installed by its digest only")
	}
	if a.Env.InstallPython == nil {
		return api.Errorf(api.KindUnsupported, "sandboxes require Linux").WithHint("run it on the machine of the daemon")
	}
	dir, err := a.DataDir()
	if err != nil {
		return err
	}
	var module io.ReadCloser
	if c.File != "" {
		module, err = os.Open(c.File)
	} else {
		module, err = download(ctx, c.URL)
	}
	if err != nil {
		var e *api.Error
		if errors.As(err, &e) {
			return err
		}
		return api.Errorf(api.KindInvalid, "install %s: %w", c.Name, err)
	}
	defer module.Close()
	digest, err := a.Env.InstallPython(filepath.Join(dir, "wasm"), module, strings.ToLower(c.SHA256))
	if err != nil {
		return err
	}
	a.Note("%s is installed for new wasm sandboxes (SHA-256 %s)", c.Name, digest)
	return nil
}

func download(ctx app.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "download %s: %w", url, err).WithHint("download it by other means, and use --file")
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, api.Errorf(api.KindUnavailable, "download %s: %s", url, resp.Status)
	}
	return resp.Body, nil
}
