package e2b

import (
	"context"
	"net/http"
	"strings"
	"time"

	"hortus.dev/api"
)

// templates serves requests about templates.
type templates struct {
	catalog
	limits api.Limits // of the built-in one
}

func (d templates) register(to *router) {
	to.handle("GET /templates/{id}/{what}", d.about)
	to.handle("GET /templates", d.templates, "limit", "nextToken")
	to.handle("GET /v2/templates", d.templates, "limit", "nextToken")
	to.handle("DELETE /templates/{id}", d.removeTemplate)
}

// onlyTag is the one tag that a template has.
const onlyTag = "default"

// catalog knows templates by the names of the wire.
type catalog struct {
	aliases   map[string]string
	snapshots Snapshots
}

// template returns the name that Hortus knows for one of the wire's: a template's, the
// id of a snapshot, or one of the aliases, with or without the tag that every template
// has.
func (d catalog) template(raw string) (string, error) {
	none := api.Errorf(api.KindNotFound, "template %.80q was not found", raw)
	name, tag, tagged := strings.Cut(raw, ":")
	if tagged && tag != onlyTag {
		return "", none
	}
	if to, ok := d.aliases[name]; ok {
		return to, nil
	}
	if name == "" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", none
	}
	return name, nil
}

// templateID is what the wire calls a sandbox's template.
func (d catalog) templateID(s api.Sandbox) string { return d.displayName(s.Template) }

// displayName returns the alias of the host template, where it has one: its clients know it
// by that.
func (d catalog) displayName(name string) string {
	if name == api.HostTemplate && d.aliases["base"] == name {
		return "base"
	}
	return name
}

// startable lists the snapshots that sandboxes can start from, the newest first; of each
// name the newest.
func (d catalog) startable(r *http.Request) ([]api.Snapshot, error) {
	seen := map[string]bool{}
	var out []api.Snapshot
	page := func(ctx context.Context, p api.PageRequest) ([]api.Snapshot, string, error) {
		return d.snapshots.SnapshotPage(ctx, false, p)
	}
	for s, err := range api.Pages(r.Context(), page) {
		if err != nil {
			return nil, err
		}
		if s.State != api.SnapshotReady || s.Paused || s.Name != "" && seen[s.Name] || s.Name == "" && s.BuildKey != "" {
			continue
		}
		seen[s.Name] = true
		out = append(out, s)
	}
	return out, nil
}

// find returns the snapshot that a name of the wire stands for.
func (d catalog) find(r *http.Request, raw string) (api.Snapshot, error) {
	name, err := d.template(raw)
	if err != nil {
		return api.Snapshot{}, err
	}
	if name == api.HostTemplate {
		return api.Snapshot{}, api.Errorf(api.KindDenied, "template %.80q is built in and cannot be removed", raw)
	}
	all, err := d.startable(r)
	if err != nil && api.KindOf(err) != api.KindUnsupported { // which is a daemon that keeps none
		return api.Snapshot{}, err
	}
	for _, s := range all {
		if s.Name == name || string(s.ID) == name {
			return s, nil
		}
	}
	return api.Snapshot{}, api.Errorf(api.KindNotFound, "template %.80q was not found", raw)
}

// about answers GET /templates/aliases/NAME and GET /templates/NAME/tags, which no two patterns tell apart.
func (d templates) about(w http.ResponseWriter, r *http.Request) error {
	switch id, what := r.PathValue("id"), r.PathValue("what"); {
	case id == "aliases":
		return d.alias(w, r, what)
	case what == "tags":
		return d.tags(w, r, id)
	}
	return noRoute(r)
}

// tags answers the tags of a template: the only one.
func (d templates) tags(w http.ResponseWriter, r *http.Request, raw string) error {
	s, err := d.find(r, raw)
	if err != nil {
		return err
	}
	type tag struct {
		Tag       string    `json:"tag"`
		BuildID   string    `json:"buildID"`
		CreatedAt time.Time `json:"createdAt"`
	}
	return answer(w, http.StatusOK, []tag{{onlyTag, string(s.ID), s.CreatedAt.UTC()}})
}

// alias returns what a name stands for.
func (d templates) alias(w http.ResponseWriter, r *http.Request, raw string) error {
	s, err := d.find(r, raw)
	out := struct {
		TemplateID string `json:"templateID"`
		Public     bool   `json:"public"`
	}{string(s.ID), false}
	if api.KindOf(err) == api.KindDenied {
		out.TemplateID, out.Public, err = d.displayName(api.HostTemplate), true, nil
	}
	if err != nil {
		return err
	}
	if s.Name != "" {
		out.TemplateID = s.Name
	}
	return answer(w, http.StatusOK, out)
}

// removeTemplate removes a snapshot for good, under its id or its name.
func (d templates) removeTemplate(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r, r.PathValue("id"))
	if err == nil {
		_, err = d.snapshots.RemoveSnapshot(r.Context(), s.ID)
	}
	return done(w, err)
}

// templateRow is a template in a list. What the wire wants counted and Hortus does not
// count is 0 or null.
type templateRow struct {
	TemplateID    string    `json:"templateID"`
	BuildID       string    `json:"buildID"`
	BuildStatus   string    `json:"buildStatus"`
	BuildCount    int       `json:"buildCount"`
	Names         []string  `json:"names"`
	Aliases       []string  `json:"aliases"`
	Public        bool      `json:"public"`
	CPUCount      int       `json:"cpuCount"`
	MemoryMB      int64     `json:"memoryMB"`
	DiskSizeMB    int64     `json:"diskSizeMB"`
	EnvdVersion   string    `json:"envdVersion"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	CreatedBy     *string   `json:"createdBy"`
	LastSpawnedAt *string   `json:"lastSpawnedAt"`
	SpawnCount    int       `json:"spawnCount"`
}

// templates returns a page of what sandboxes can start from by a name, this machine's own
// tools last, which are the oldest of all.
func (d templates) templates(w http.ResponseWriter, r *http.Request) error {
	// The host template was never made: it stands before all time.
	host := api.Snapshot{Name: d.displayName(api.HostTemplate), Limits: d.limits.OrDefault(), CreatedAt: time.Unix(0, 0).UTC()}
	host.ID = api.SnapshotID(strings.Repeat("0", api.IDLen))
	named := func(s api.Snapshot) bool { return s.Name != "" }
	return answerPage(w, r, d.catalog, named, []api.Snapshot{host}, func(s api.Snapshot) templateRow {
		return templateRow{
			TemplateID: s.Name, BuildID: string(s.ID), BuildStatus: "ready", BuildCount: 1, Names: []string{s.Name}, Aliases: []string{s.Name},
			Public: s.ID == host.ID, CPUCount: cpuCount(s.Limits), MemoryMB: s.Limits.MemoryBytes >> 20, DiskSizeMB: s.Limits.DiskBytes >> 20,
			EnvdVersion: EnvdVersion, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.CreatedAt.UTC(),
		}
	})
}
