package e2b

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

// templates serves requests about templates.
type templates struct {
	catalog
	limits  api.Limits // of the built-in one
	forward *forward.Forwarder
}

func (d templates) register(to *router) {
	to.handle("GET /templates/{id}/{what}", d.about)
	to.handle("GET /templates", d.templates, "limit", "nextToken")
	to.handle("GET /v2/templates", d.templates, "limit", "nextToken")
	to.handle("DELETE /templates/{id}", d.removeTemplate)
	to.handle("POST /templates/tags", d.assignTags)
	to.handle("DELETE /templates/tags", d.removeTags)
}

// catalog knows templates by the names of the wire.
type catalog struct {
	aliases   map[string]string
	snapshots Snapshots
}

// template returns the name that Hortus knows for one of the wire's: a template's, with or without a
// tag, the id of a snapshot, or one of the aliases.
func (d catalog) template(raw string) (string, error) {
	base, tag := api.SplitTemplateName(raw)
	to, alias := d.aliases[base]
	switch {
	case alias && tag == api.DefaultTag:
		return to, nil
	case alias, !api.ValidSnapshotName(raw):
		return "", notFound(raw)
	}
	return api.JoinTemplateName(base, tag), nil
}

func notFound(raw string) error {
	return api.Errorf(api.KindNotFound, "template %.80q was not found", raw)
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

// startable lists the snapshots that sandboxes can start from, the newest first. Each name is that of
// the first that has it.
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
		if s.State != api.SnapshotReady || s.Paused || s.Name == "" && s.BuildKey != "" {
			continue
		}
		if s.Name != "" {
			s.SetNames(slices.DeleteFunc(s.Names(), func(n string) bool { return seen[n] }))
			if s.Name == "" {
				continue
			}
		}
		for _, n := range s.Names() {
			seen[n] = true
		}
		out = append(out, s)
	}
	return out, nil
}

// find returns the snapshot that a name of the wire stands for.
func (d catalog) find(r *http.Request, raw string) (api.Snapshot, error) {
	all, err := d.matching(r, raw, func(s api.Snapshot, name string) bool { return s.HasName(name) })
	if err != nil {
		return api.Snapshot{}, err
	}
	return all[0], nil
}

// builds returns the snapshots of a template: for a name without a tag those of all tags.
func (d catalog) builds(r *http.Request, raw string) ([]api.Snapshot, error) {
	return d.matching(r, raw, func(s api.Snapshot, name string) bool {
		return s.HasName(name) || baseName(s) == raw
	})
}

// baseName returns the name of a template without its tag.
func baseName(s api.Snapshot) string {
	base, _ := api.SplitTemplateName(s.Name)
	return base
}

// matching returns the snapshots with an ID, or those that match a name: of one account, which is the
// caller's own if it has any.
func (d catalog) matching(r *http.Request, raw string, matches func(s api.Snapshot, name string) bool) ([]api.Snapshot, error) {
	name, err := d.template(raw)
	if err != nil {
		return nil, err
	}
	if name == api.HostTemplate {
		return nil, api.Errorf(api.KindDenied, "template %.80q is built in and cannot be changed", raw)
	}
	all, err := d.startable(r)
	if err != nil && api.KindOf(err) != api.KindUnsupported { // which is a daemon that keeps none
		return nil, err
	}
	var out []api.Snapshot
	for _, s := range all {
		if (string(s.ID) == name || matches(s, name)) && (len(out) == 0 || s.Account == out[0].Account) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, notFound(raw)
	}
	return out, nil
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

// tags answers the tags of a template, and what they stand for.
func (d templates) tags(w http.ResponseWriter, r *http.Request, raw string) error {
	all, err := d.builds(r, raw)
	if err != nil {
		return err
	}
	type tag struct {
		Tag       string    `json:"tag"`
		BuildID   string    `json:"buildID"`
		CreatedAt time.Time `json:"createdAt"`
	}
	out := []tag{}
	for _, s := range all {
		for _, n := range tagsOf(s) {
			out = append(out, tag{n, buildID(s.ID), s.CreatedAt.UTC()})
		}
	}
	return answer(w, http.StatusOK, out)
}

// buildID returns the build that a snapshot is: a UUID (version 8), which the SDK for Python requires. It is the same each time.
func buildID(id api.SnapshotID) string {
	sum := sha256.Sum256([]byte("build " + id))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// tagsOf returns the tags of a snapshot. One without a name has the default one.
func tagsOf(s api.Snapshot) []string {
	if s.Name == "" {
		return []string{api.DefaultTag}
	}
	var out []string
	for _, n := range s.Names() {
		_, tag := api.SplitTemplateName(n)
		out = append(out, tag)
	}
	return out
}

// assignTags gives what a tag stands for other tags too.
func (d templates) assignTags(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Target string   `json:"target"`
		Tags   []string `json:"tags"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	s, err := d.find(r, in.Target)
	if err == nil {
		s, err = d.snapshots.TagSnapshot(r.Context(), s.ID, api.TagSnapshot{Tags: in.Tags})
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, struct {
		BuildID string   `json:"buildID"`
		Tags    []string `json:"tags"`
	}{buildID(s.ID), in.Tags})
}

// removeTags takes tags from a template. If one is not found it takes none.
func (d templates) removeTags(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if strings.Contains(in.Name, ":") {
		return api.Errorf(api.KindInvalid, `option "name": %.80q must be the name of a template without a tag`, in.Name)
	}
	if len(in.Tags) == 0 || len(in.Tags) > api.MaxTemplateNames {
		return api.Errorf(api.KindInvalid, `option "tags": %d tags are not between 1 and %d`, len(in.Tags), api.MaxTemplateNames)
	}
	found := make([]api.SnapshotID, len(in.Tags))
	for i, tag := range in.Tags {
		s, err := d.find(r, in.Name+":"+tag)
		if err != nil {
			return err
		}
		found[i] = s.ID
	}
	for i, tag := range in.Tags {
		if _, err := d.snapshots.UntagSnapshot(r.Context(), found[i], tag); err != nil {
			return err
		}
	}
	return done(w, nil)
}

// alias returns what a name stands for.
func (d templates) alias(w http.ResponseWriter, r *http.Request, raw string) error {
	all, err := d.builds(r, raw)
	out := struct {
		TemplateID string `json:"templateID"`
		Public     bool   `json:"public"`
	}{}
	switch {
	case api.KindOf(err) == api.KindDenied:
		out.TemplateID, out.Public = d.displayName(api.HostTemplate), true
	case err != nil:
		return err
	default:
		out.TemplateID = cmp.Or(baseName(all[0]), string(all[0].ID))
	}
	return answer(w, http.StatusOK, out)
}

// removeTemplate removes a snapshot for good, under its id or its name with a tag, or all of a
// template.
func (d templates) removeTemplate(w http.ResponseWriter, r *http.Request) error {
	all, err := d.builds(r, r.PathValue("id"))
	if len(all) > 0 { // those of one name were made on one node
		if done, err := d.forward.Pass(w, r, forward.About{Door: forward.DoorE2B, Kind: forward.Snapshot, ID: string(all[0].ID)}); done || err != nil {
			return err
		}
	}
	for _, s := range all {
		if _, err = d.snapshots.RemoveSnapshot(r.Context(), s.ID); err != nil {
			break
		}
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
	builds := map[string]int{}
	named := func(s api.Snapshot) bool {
		builds[baseName(s)]++
		return s.Name != "" && builds[baseName(s)] == 1
	}
	builds[host.Name] = 1
	return answerPage(w, r, d.catalog, named, []api.Snapshot{host}, func(s api.Snapshot) templateRow {
		name := baseName(s)
		return templateRow{
			TemplateID: name, BuildID: buildID(s.ID), BuildStatus: "ready", BuildCount: builds[name], Names: []string{name}, Aliases: []string{name},
			Public: s.ID == host.ID, CPUCount: cpuCount(s.Limits), MemoryMB: s.Limits.MemoryBytes >> 20, DiskSizeMB: s.Limits.DiskBytes >> 20,
			EnvdVersion: EnvdVersion, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.CreatedAt.UTC(),
		}
	})
}
