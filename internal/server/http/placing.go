package http

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/api/session"
	"hortus.dev/internal/server/forward"
)

// collections are the first segments of paths whose second one names a thing that one node of a fleet has.
var collections = map[string]forward.Kind{
	"sandboxes": forward.Sandbox, "provision": forward.Sandbox, "open": forward.Sandbox, "snapshots": forward.Snapshot,
	"workspaces": forward.Workspace, "tasks": forward.Task, "runs": forward.Task, "sessions": forward.Session, "plans": forward.Plan,
	// A node drains itself.
	"fleet": forward.Machine,
}

// collection returns the first segment of a route's path, and whether the path names one thing of it.
func (rt Route) collection() (name string, one bool) {
	rest, _ := strings.CutPrefix(rt.Pattern, "/v1/")
	name, rest, _ = strings.Cut(rest, "/")
	return name, strings.HasPrefix(rest, "{") || rt.Name == "drainNode"
}

// elsewhere has another node of the fleet serve a request about a thing of that node's. It reports false if this node serves it.
func (d *Server) elsewhere(rt Route, w http.ResponseWriter, r *http.Request) (done bool, err error) {
	name, one := rt.collection()
	kind := collections[name]
	if d.Forward == nil || kind == "" || !one {
		return false, nil
	}
	id, err := d.idOf(name, r)
	if err != nil {
		return false, nil // the handler finds the same
	}
	return d.Forward.Pass(w, r, forward.About{Door: forward.DoorV1, Kind: kind, ID: id, Stored: rt.Stored})
}

// idOf returns the ID of the thing that a path names, or the key of a session.
func (d *Server) idOf(collection string, r *http.Request) (string, error) {
	switch collection {
	case "sandboxes":
		id, err := sandboxID(d.Sandboxes)(r)
		return string(id), err
	case "provision":
		if d.Provisions == nil {
			return "", api.Errorf(api.KindUnsupported, "this daemon does not create sandboxes for tasks")
		}
		s, err := d.Provisions.Find(r.Context(), r.PathValue("id"))
		return string(s.ID), err
	case "snapshots":
		id, err := snapshots{Snapshots: d.Snapshots}.snapshotID(r)
		return string(id), err
	case "workspaces":
		id, err := workspaces{Workspaces: d.Workspaces}.workspaceID(r)
		return string(id), err
	case "tasks", "runs":
		id, err := tasks{Tasks: d.Tasks}.taskID(r)
		return string(id), err
	case "plans":
		id, err := plans{Plans: d.Plans}.planID(r)
		return string(id), err
	case "sessions":
		return r.PathValue("key"), nil
	case "fleet":
		return r.PathValue("name"), nil
	}
	return r.PathValue("id"), nil
}

// needOf returns what is known of a thing before it is made. What cannot be read is what the handler refuses.
func needOf(kind forward.Kind, run bool) func(body []byte) forward.Need {
	return func(body []byte) forward.Need {
		var t api.CreateTask
		switch kind {
		case forward.Sandbox:
			_ = json.Unmarshal(body, &t.Sandbox)
		case forward.Task:
			if run {
				var in api.CreateRun
				_ = json.Unmarshal(body, &in)
				t = in.Task()
			} else {
				_ = json.Unmarshal(body, &t)
			}
		case forward.Session:
			var in session.Create
			_ = json.Unmarshal(body, &in)
			t = api.CreateTask{Model: in.Model, Models: api.Models{Large: in.LargeModel}, Sandbox: in.Sandbox, Repo: &api.RepoTask{URL: in.Repository}}
		case forward.Plan:
			var in plan.Create
			_ = json.Unmarshal(body, &in)
			t = in.Task
		case forward.Build:
			var in api.BuildTemplate
			_ = json.Unmarshal(body, &in)
			_, node, _ := strings.Cut(in.Files, ".")
			return forward.Need{Kind: kind, Node: api.NodeID(node)}
		}
		s := t.Sandbox
		need := forward.Need{Kind: kind, Template: s.Template, Workspace: s.Workspace, Isolation: s.Isolation, Memory: s.Limits.MemoryBytes, Here: OfThisMachine(t)}
		if t.Replay != nil {
			need.Task = t.Replay.Task
		}
		return need
	}
}

// OfThisMachine reports whether a task refers to files of the machine of the node that the client reached.
func OfThisMachine(t api.CreateTask) bool {
	path := func(s string) bool {
		return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "file:") || strings.HasPrefix(s, "replay:")
	}
	local := t.Record != "" || slices.ContainsFunc([]string{t.Model, t.Models.Planner, t.Models.Coder, t.Models.Debugger, t.Models.Large, t.Models.Small}, path)
	if t.Repo != nil {
		local = local || path(t.Repo.URL) || slices.ContainsFunc(t.Repo.Also, func(r api.TaskRepository) bool { return path(r.URL) })
	}
	return local
}
