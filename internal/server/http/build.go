package http

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/build"
	"hortus.dev/internal/sandbox/build/buildyaml"
	"hortus.dev/internal/sandbox/build/dockerfile"
	"hortus.dev/internal/sandbox/build/preset"
	"hortus.dev/internal/server/forward"
)

// Builds builds templates of the caller's account.
type Builds interface {
	// Build reports its lines, one after the other, before it returns. The end of ctx ends it and
	// what it began.
	Build(ctx context.Context, req build.Request, log func(build.Line)) (api.Snapshot, error)
}

// BuildFiles keeps the files of builds, by account. An empty name is the digest of what is stored.
type BuildFiles interface {
	Put(ctx context.Context, name string, archive io.Reader) (string, error)
}

// builds serves builds of templates.
type builds struct {
	Builds Builds
	Files  BuildFiles
	// Node has the files that are uploaded here; empty if there is no fleet.
	Node api.NodeID
}

func (d builds) buildRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/templates/files", Name: "uploadBuildFiles", Role: api.RoleUser,
		Doc:    "Upload the files of a build. The body is a tar archive of up to 1 GiB, which may be compressed with gzip. Its paths must be relative; it has files, directories and links. The files are kept for later builds of the account until it has more than 4 GiB.",
		InType: typeTar, Out: api.BuildFiles{}, Status: http.StatusCreated,
		Handler: d.upload,
	}, {
		Method: "POST", Pattern: "/v1/templates/build", Name: "buildTemplate", Role: api.RoleUser, Creates: true, Places: forward.Build,
		Doc: `Build a template from a Dockerfile, a hortus.yaml, or a preset. ` + linesDoc + `with the snapshot. {"type":"output", ...} has a line that a step printed. If the client disconnects, the build is cancelled.`,
		In:  api.BuildTemplate{}, OutType: typeLines, Out: api.BuildLine{},
		Handler: d.build,
	}}
}

// unsupported is the error of a daemon without builds.
func (d builds) unsupported() error {
	if d.Builds == nil || d.Files == nil {
		return api.Errorf(api.KindUnsupported, "this daemon does not build templates")
	}
	return nil
}

func (d builds) upload(w http.ResponseWriter, r *http.Request) error {
	if err := d.unsupported(); err != nil {
		return err
	}
	id, err := d.Files.Put(r.Context(), "", http.MaxBytesReader(w, r.Body, build.MaxArchive))
	if d.Node != "" {
		id += "." + string(d.Node) // another node passes their build on
	}
	return reply(w, http.StatusCreated, api.BuildFiles{ID: id}, err)
}

// buildRequest reads the Dockerfile or hortus.yaml of a request, which replaces the start command and the limits of the latter.
func buildRequest(in api.BuildTemplate) (req build.Request, err error) {
	if err := preset.Fill(&in); err != nil {
		return req, err
	}
	switch {
	case in.YAML == "":
		f, err := dockerfile.Parse(in.Dockerfile, dockerfile.Options{Args: in.Args, Target: in.Target, Files: in.Files, Secrets: in.Secrets})
		if err != nil {
			return req, err
		}
		req.Stages, req.Notes = f.Stages, f.Notes
	case in.Dockerfile != "" || in.Target != "" || len(in.Args) > 0 || len(in.Secrets) > 0:
		return req, api.Errorf(api.KindInvalid, "a build of a hortus.yaml has no Dockerfile, target, arguments or secrets").WithHint("write a Dockerfile")
	default:
		if req, err = buildyaml.Parse(in.YAML, in.Files); err != nil {
			return req, err
		}
	}
	req.Name, req.Tags, req.Isolation, req.Egress, req.NoCache = in.Name, in.Tags, in.Isolation, in.Egress, in.NoCache
	req.PrivateTraffic, req.IDEPort = in.PrivateTraffic, in.IDEPort
	req.Start, req.Ready = cmp.Or(in.Start, req.Start), cmp.Or(in.Ready, req.Ready)
	of := req.Limits
	req.Limits = in.Limits
	req.Limits.CPUs, req.Limits.Processes = cmp.Or(in.Limits.CPUs, of.CPUs), cmp.Or(in.Limits.Processes, of.Processes)
	req.Limits.MemoryBytes, req.Limits.DiskBytes = cmp.Or(in.Limits.MemoryBytes, of.MemoryBytes), cmp.Or(in.Limits.DiskBytes, of.DiskBytes)
	return req, nil
}

// build streams the lines of a build, one JSON value per line.
func (d builds) build(w http.ResponseWriter, r *http.Request) error {
	if err := d.unsupported(); err != nil {
		return err
	}
	var in api.BuildTemplate
	if err := decode(w, r, &in); err != nil {
		return err
	}
	in.Files, _, _ = strings.Cut(in.Files, ".")
	req, err := buildRequest(in)
	if err != nil {
		return err
	}
	out := lines{w: w}
	v, err := d.Builds.Build(r.Context(), req, func(l build.Line) {
		if l.Output {
			out.write(api.BuildLine{Type: api.LineOutput, Output: &l.Text})
		} else {
			out.write(api.BuildLine{Type: api.LineStep, Step: l.Text})
		}
	})
	if err == nil {
		out.write(api.BuildLine{Type: api.LineDone, Snapshot: &v})
	}
	return out.end(err)
}
