package preset

import (
	"cmp"
	_ "embed" // ide.Dockerfile
	"fmt"
	"slices"
	"strings"

	"hortus.dev/api"
)

// definition is one preset. A request may replace its limits and what its steps may connect to.
type definition struct {
	dockerfile   string
	start, ready string
	limits       api.Limits
	// egress has names of presets of outgoing connections, imageEgress those that an image needs besides.
	egress, imageEgress []string
	idePort             int
}

// browser installs Debian's Chromium unless it is there. Chromium's own sandbox needs rights that a sandbox has not, and adds
// nothing to it. The program itself is started, not Debian's script, which needs files that the host template has not. The loop
// starts it again when a client closes it.
var browser = definition{
	dockerfile: `ARG BASE=host
FROM ${BASE}
RUN command -v chromium >/dev/null || { \
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || { echo "chromium is not here, and cannot be installed: start from an image of Debian with --from, or install it on this machine" >&2; exit 1; }; \
  apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; }
`,
	start: fmt.Sprintf(`exe=/usr/lib/chromium/chromium; [ -x "$exe" ] || exe=chromium; while "$exe" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run `+
		`--disable-background-networking --disable-component-update --disable-sync --user-data-dir=/tmp/browser --window-size=1280,800 --remote-debugging-port=%d about:blank || exit; do :; done`, api.BrowserPort),
	ready:       fmt.Sprintf(`bash -c ': </dev/tcp/127.0.0.1/%d'`, api.BrowserPort),
	limits:      api.Limits{CPUs: 2, MemoryBytes: 2 << 30, Processes: 1024, DiskBytes: 2 << 30},
	imageEgress: []string{"apt"},
}

//go:embed ide.Dockerfile
var ideDockerfile string

// ide installs an editor with a terminal. It has no password: the private port is reached with a ticket. Nothing of it asks for
// updates or sends telemetry. The person's browser would ask the gallery of extensions itself, so there is none unless the template
// names one. Its proxy for other ports is off, since these have addresses of their own.
var ide = definition{
	dockerfile: ideDockerfile,
	start: fmt.Sprintf(`cd "$HOME/.local/lib/code-server" && export EXTENSIONS_GALLERY="${EXTENSIONS_GALLERY:-{\}}" && exec ./node package/out/node/entry.js --bind-addr 127.0.0.1:%d `+
		`--auth none --disable-telemetry --disable-update-check --disable-workspace-trust --disable-getting-started-override --disable-proxy /workspace`, api.IDEPort),
	ready:       fmt.Sprintf(`bash -c ': </dev/tcp/127.0.0.1/%d'`, api.IDEPort),
	limits:      api.Limits{CPUs: 2, MemoryBytes: 2 << 30, Processes: 1024, DiskBytes: 4 << 30},
	egress:      []string{"npm"},
	imageEgress: []string{"apt"},
	idePort:     api.IDEPort,
}

var definitions = map[api.Preset]definition{api.PresetBrowser: browser, api.PresetIDE: ide}

// Fill puts a preset into a request that names one. What the preset says itself is an error in the request.
func Fill(req *api.BuildTemplate) error {
	d, ok := definitions[req.Preset]
	switch {
	case req.Preset == "" && req.From != "":
		return api.Errorf(api.KindInvalid, "from is for a preset").WithHint("write FROM in the Dockerfile")
	case req.Preset == "":
		return nil
	case !ok:
		var names []string
		for name := range definitions {
			names = append(names, string(name))
		}
		slices.Sort(names)
		return api.Errorf(api.KindInvalid, "unknown preset %.40q: use %s", req.Preset, strings.Join(names, ", "))
	case req.Dockerfile != "" || req.YAML != "" || req.Files != "" || req.Target != "" || req.Start != "" || req.Ready != "" || len(req.Args) > 0 || len(req.Secrets) > 0 || req.IDEPort != 0:
		return api.Errorf(api.KindInvalid, "preset %s has its own Dockerfile and start command", req.Preset).
			WithHint("build it, and then another template from it: FROM %s in a Dockerfile", req.Name)
	}
	req.Dockerfile, req.Start, req.Ready, req.PrivateTraffic, req.IDEPort = d.dockerfile, d.start, d.ready, true, d.idePort
	req.Args = map[string]string{"BASE": cmp.Or(req.From, api.HostTemplate)}
	l, of := &req.Limits, d.limits
	l.CPUs, l.MemoryBytes, l.Processes, l.DiskBytes = cmp.Or(l.CPUs, of.CPUs), cmp.Or(l.MemoryBytes, of.MemoryBytes), cmp.Or(l.Processes, of.Processes), cmp.Or(l.DiskBytes, of.DiskBytes)
	needs := d.egress
	if req.From != "" && req.From != api.HostTemplate {
		needs = slices.Concat(needs, d.imageEgress)
	}
	if req.Egress == nil && len(needs) > 0 {
		req.Egress = &api.EgressPolicy{Presets: slices.Clone(needs)}
	}
	return nil
}
