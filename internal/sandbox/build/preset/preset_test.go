package preset

import (
	"testing"

	"hortus.dev/api"
)

// TestFill: each preset fills a request that names it; what both say is an error.
func TestFill(t *testing.T) {
	for _, name := range api.Presets() {
		req := api.BuildTemplate{Name: "a", Preset: name, Limits: api.Limits{CPUs: 4}}
		if err := Fill(&req); err != nil || req.Dockerfile == "" || req.Start == "" || req.Ready == "" || !req.PrivateTraffic || req.Args["BASE"] != api.HostTemplate || req.Limits.CPUs != 4 || req.Limits.MemoryBytes == 0 || (req.Egress == nil) != (name == api.PresetBrowser) || (req.IDEPort != 0) != (name == api.PresetIDE) {
			t.Errorf("%s: %+v, %v", name, req, err)
		}
		image := api.BuildTemplate{Name: "a", Preset: name, From: "debian:13"}
		if err := Fill(&image); err != nil || image.Args["BASE"] != "debian:13" || image.Egress == nil || len(image.Egress.Presets) == 0 {
			t.Errorf("%s of an image: %+v, %v", name, image, err)
		}
	}
	if len(definitions) != len(api.Presets()) {
		t.Errorf("%d presets are defined, the API has %d", len(definitions), len(api.Presets()))
	}
	for _, req := range []api.BuildTemplate{{Preset: "none"}, {From: "host"}, {Preset: api.PresetBrowser, Dockerfile: "FROM host"}, {Preset: api.PresetBrowser, Start: "true"}, {Preset: api.PresetIDE, IDEPort: 3000}, {Preset: api.PresetBrowser, Args: map[string]string{"BASE": "x"}}} {
		if err := Fill(&req); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
	plain := api.BuildTemplate{Dockerfile: "FROM host"}
	if err := Fill(&plain); err != nil || plain.PrivateTraffic || plain.Start != "" {
		t.Errorf("%+v, %v", plain, err)
	}
}
