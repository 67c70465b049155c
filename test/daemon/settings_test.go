package daemon

import (
	"os"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/daemon/launch"
	"hortus.dev/internal/platform/config"
	"hortus.dev/test/world"
)

// TestSettingsReachTheDaemon: one that is started has them, one that runs takes
// them over.
func TestSettingsReachTheDaemon(t *testing.T) {
	dir := world.NewDir(t)
	t.Setenv("HORTUS_CONFIG", os.DevNull)
	minute, hour, never := int64(60_000), int64(3_600_000), int64(-1)
	for i, c := range []struct {
		want      admin.DaemonSettings
		level     string
		idle      int64
		whyNoIdle string
	}{
		{admin.DaemonSettings{LogLevel: "debug", IdleMS: &minute}, "debug", minute, ""},
		{admin.DaemonSettings{}, "debug", minute, "nothing is named"},
		{admin.DaemonSettings{LogLevel: "error", IdleMS: &hour}, "error", hour, ""},
		{admin.DaemonSettings{IdleMS: &never}, "error", -1, ""},
		{admin.DaemonSettings{LogLevel: "info", IdleMS: &minute}, "info", -1, "one that stays for ever goes on to"},
	} {
		c1 := world.Connect(t, dir)
		c1.Close()
		cl := world.Must(daemon.Connect(t.Context(), daemon.ConnectOptions{Options: launch.Options{DataDir: dir, Settings: c.want}}))(t)
		info, err := cl.Info(t.Context())
		cl.Close()
		if err != nil || info.Settings.LogLevel != c.level || info.Settings.IdleMS == nil || *info.Settings.IdleMS != c.idle {
			t.Errorf("%d: %+v, %v (%s)", i, info.Settings, err, c.whyNoIdle)
		}
	}
	cl := world.Connect(t, dir)
	if _, err := cl.Configure(t.Context(), admin.DaemonSettings{LogLevel: "loud"}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a level that is none: %v", err)
	}
}

// TestIsolationNames: the configuration allows the backends that are compiled in.
func TestIsolationNames(t *testing.T) {
	t.Parallel()
	d := world.Must(world.Connect(t, world.NewDir(t)).Doctor(t.Context()))(t)
	want := []string{"auto"}
	for _, b := range d.Backends {
		want = append(want, b.Backend)
	}
	if got := config.Isolations(); !slices.Equal(got, want) {
		t.Errorf("config.Isolations lists %q, this build has %q", got, want)
	}
}
