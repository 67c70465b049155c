package e2b

import (
	"net/http"

	"hortus.dev/api"
)

func (d snapshots) snapshotRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /sandboxes/{id}/snapshots", d.withoutQuery(d.snapshot))
	mux.HandleFunc("POST /sandboxes/{id}/fork", d.withoutQuery(d.fork))
	mux.HandleFunc("GET /snapshots", d.snapshots)
}

// snapshotInfo is a snapshot as the wire has it: a template with a tag.
type snapshotInfo struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func infoOf(s api.Snapshot) snapshotInfo {
	if s.Name != "" {
		full := s.Name + ":" + onlyTag
		return snapshotInfo{full, []string{full}}
	}
	return snapshotInfo{string(s.ID) + ":" + onlyTag, []string{}}
}

// snapshot saves a sandbox, which goes on.
func (d snapshots) snapshot(w http.ResponseWriter, r *http.Request) {
	d.on(w, r, func(s api.Sandbox) error {
		var in struct {
			Name string `json:"name"`
		}
		if err := decodeAny(w, r, &in); err != nil {
			return err
		}
		req := api.CreateSnapshot{}
		if in.Name != "" {
			name, err := d.template(in.Name)
			if err != nil || name == api.HostTemplate {
				return api.Errorf(api.KindInvalid, `option "name": %.80q is not a valid snapshot name`, in.Name).
					WithHint("a name has at most 63 lower-case letters, digits and dashes; its tag, if any, is %q", onlyTag)
			}
			req.Name = name
		}
		made, err := d.Snapshots.Snapshot(r.Context(), s.ID, req)
		if err != nil {
			return err
		}
		answer(w, http.StatusCreated, infoOf(made))
		return nil
	})
}

// snapshots gives a page of what was saved and can be started from.
func (d snapshots) snapshots(w http.ResponseWriter, r *http.Request) {
	q, err := parameters(r, "sandboxID", "name", "limit", "nextToken")
	var p page
	if err == nil {
		p, err = readPage(q)
	}
	var all []api.Snapshot
	if err == nil {
		all, err = d.startable(r)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	name, nerr := d.template(q.Get("name"))
	var rows []api.Snapshot
	for _, s := range all {
		if of := q.Get("sandboxID"); of != "" && of != string(s.Sandbox) {
			continue
		}
		if q.Get("name") != "" && (nerr != nil || s.Name != name) {
			continue
		}
		rows = append(rows, s)
	}
	rows, next := cut(p, rows, func(s api.Snapshot) position { return position{s.CreatedAt, string(s.ID)} })
	setNext(w, next)
	out := make([]snapshotInfo, len(rows))
	for i, s := range rows {
		out[i] = infoOf(s)
	}
	answer(w, http.StatusOK, out)
}

// forkEntry is one child of a fork: its sandbox, or why there is none.
type forkEntry struct {
	Sandbox *sandboxAnswer `json:"sandbox,omitempty"`
	Error   *wireError     `json:"error,omitempty"`
}

// fork makes sandboxes that go on from where one is now. They have its metadata and
// its end, and addresses of their own.
func (d snapshots) fork(w http.ResponseWriter, r *http.Request) {
	d.on(w, r, func(s api.Sandbox) error {
		var in struct {
			Timeout *int64 `json:"timeout"`
			Count   *int   `json:"count"`
		}
		if err := decodeAny(w, r, &in); err != nil {
			return err
		}
		ms, err := milliseconds(in.Timeout, defaultTimeout)
		if err != nil {
			return err
		}
		req := api.ForkSandbox{Count: 1, TTLMS: ms, Labels: s.Labels}
		if in.Count != nil {
			req.Count = *in.Count
		}
		if req.Count < 1 || req.Count > api.MaxForks {
			return api.Errorf(api.KindInvalid, `option "count": %d is not between 1 and %d`, req.Count, api.MaxForks)
		}
		made, err := d.Snapshots.Fork(r.Context(), s.ID, req)
		if err != nil {
			return err
		}
		out := make([]forkEntry, len(made.Children))
		for i, c := range made.Children {
			if c.Sandbox != nil {
				v := d.answerOf(r, *c.Sandbox)
				out[i].Sandbox = &v
				continue
			}
			v := wireOf(c.Error)
			out[i].Error = &v
		}
		answer(w, http.StatusCreated, out)
		return nil
	})
}
