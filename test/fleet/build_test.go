package fleet

import (
	"fmt"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestBuilds builds a template on one node, and then the same one on another node: what the first one cached is on its disk, and no cache of
// the second one.
func TestBuilds(t *testing.T) {
	tier.Soak(t)
	ctx := t.Context()
	all := open(t, 2)
	k := all[0].Key("team", api.RoleUser)
	build := func(w *world.World, name string) api.Snapshot {
		t.Helper()
		var text string
		s, err := w.As(k).Templates.Build(ctx, api.BuildTemplate{Name: name, Dockerfile: "FROM host\nRUN echo built >/home/user/f", Isolation: "container"}, func(l api.BuildLine) { text += fmt.Sprintf("%+v\n", l) })
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return s
	}
	first := build(all[0], "one")
	second := build(all[1], "two")
	if first.ID == second.ID || first.Owner == second.Owner {
		t.Errorf("%+v, %+v", first, second)
	}
	for name, s := range map[string]api.Snapshot{"one": first, "two": second} {
		if row := world.Must(all[0].DB.Snapshot(ctx, s.ID))(t); row.State != api.SnapshotReady {
			t.Errorf("template %s is %s", name, row.State)
		}
		for i, w := range all {
			box := world.Sandbox(t, w.As(k), api.CreateSandbox{Template: name})
			if out, err := world.Sh(t, box, "cat /home/user/f"); err != nil || out != "built\n" {
				t.Errorf("template %s through node %d: %q, %v", name, i, out, err)
			}
		}
	}
}
