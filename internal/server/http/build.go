package http

import (
	"context"
	"io"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/build"
	"hortus.dev/internal/sandbox/build/dockerfile"
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
}

func (d builds) buildRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/templates/files", Name: "uploadBuildFiles", Role: api.RoleUser,
		Doc:    "Upload the files of a build. The body is a tar archive of up to 1 GiB, which may be compressed with gzip. Its paths must be relative; it has files, directories and links. The files are kept for later builds of the account until it has more than 4 GiB.",
		InType: typeTar, Out: api.BuildFiles{}, Status: http.StatusCreated,
		Handler: d.upload,
	}, {
		Method: "POST", Pattern: "/v1/templates/build", Name: "buildTemplate", Role: api.RoleUser, Creates: true,
		Doc: `Build a template from a Dockerfile. ` + linesDoc + `with the snapshot. {"type":"output", ...} has a line that a step printed. If the client disconnects, the build is cancelled.`,
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
	return reply(w, http.StatusCreated, api.BuildFiles{ID: id}, err)
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
	f, err := dockerfile.Parse(in.Dockerfile, dockerfile.Options{Args: in.Args, Target: in.Target, Files: in.Files, Secrets: in.Secrets})
	if err != nil {
		return err
	}
	out := lines{w: w}
	v, err := d.Builds.Build(r.Context(), build.Request{
		Name: in.Name, Stages: f.Stages, Notes: f.Notes, Start: in.Start, Ready: in.Ready, Isolation: in.Isolation, Limits: in.Limits, Egress: in.Egress, NoCache: in.NoCache,
	}, func(l build.Line) {
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
