package e2b

import (
	"net/http"

	"hortus.dev/api"
)

// snapshots serves requests about snapshots and forks.
type snapshots struct {
	finder
	answers
}

func (d snapshots) register(to *router) {
	to.handle("POST /sandboxes/{id}/snapshots", d.on(d.snapshot))
	to.handle("POST /sandboxes/{id}/fork", d.on(d.fork))
	to.handle("GET /snapshots", d.list, "sandboxID", "name", "limit", "nextToken")
}

// snapshotInfo is a snapshot as the wire has it: a template with a tag.
type snapshotInfo struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func infoOf(s api.Snapshot) snapshotInfo {
	if s.Name == "" {
		return snapshotInfo{string(s.ID) + ":" + api.DefaultTag, []string{}}
	}
	var names []string
	for _, tag := range tagsOf(s) {
		names = append(names, baseName(s)+":"+tag)
	}
	return snapshotInfo{names[0], names}
}

// snapshot saves a sandbox, which continues.
func (d snapshots) snapshot(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
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
				WithHint("a name has at most 63 lower-case letters, digits and dashes, and may have a tag: NAME:TAG")
		}
		req.Name = name
	}
	made, err := d.catalog.snapshots.Snapshot(r.Context(), s.ID, req)
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, infoOf(made))
}

// snapshots returns a page of what was saved and can be started from.
func (d snapshots) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	raw := q.Get("name")
	name, nerr := d.template(raw)
	keep := func(s api.Snapshot) bool {
		of := q.Get("sandboxID")
		return (of == "" || of == string(s.Sandbox)) && (raw == "" || nerr == nil && (s.HasName(name) || baseName(s) == raw))
	}
	return answerPage(w, r, d.catalog, keep, nil, infoOf)
}

// answerPage answers with a page of the snapshots that sandboxes can start from and that keep
// accepts, and of more.
func answerPage[T any](w http.ResponseWriter, r *http.Request, d catalog, keep func(api.Snapshot) bool, more []api.Snapshot, row func(api.Snapshot) T) error {
	p, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	all, err := d.startable(r)
	if err != nil {
		return err
	}
	rows := window[api.Snapshot]{page: p, at: func(s api.Snapshot) position { return position{s.CreatedAt, string(s.ID)} }}
	for _, s := range all {
		if keep(s) {
			rows.add(s)
		}
	}
	for _, s := range more {
		rows.add(s)
	}
	return answerWindow(w, rows, row)
}

// answerWindow answers with the page of a list.
func answerWindow[T, R any](w http.ResponseWriter, rows window[T], row func(T) R) error {
	kept, next := rows.cut()
	if next != "" {
		w.Header().Set(nextHeader, next)
	}
	out := make([]R, len(kept))
	for i, v := range kept {
		out[i] = row(v)
	}
	return answer(w, http.StatusOK, out)
}

// forkEntry is one child of a fork: its sandbox, or why there is none.
type forkEntry struct {
	Sandbox *sandboxAnswer `json:"sandbox,omitempty"`
	Error   *wireError     `json:"error,omitempty"`
}

// fork makes sandboxes that continue from where one is now. They have its metadata and
// its end, and addresses of their own.
func (d snapshots) fork(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
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
	made, err := d.catalog.snapshots.Fork(r.Context(), s.ID, req)
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
	return answer(w, http.StatusCreated, out)
}
