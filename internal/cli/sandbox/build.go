package sandbox

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/terminal"
)

type templateBuildCmd struct {
	Name    string   `arg:"" optional:"" help:"Name of the template, NAME or NAME:TAG (default: that of the directory). An existing template with this name is replaced; running sandboxes keep the old one."`
	Dir     string   `arg:"" optional:"" complete:"files" help:"Directory with the files of the build (default .). What .dockerignore lists is left out."`
	File    string   `short:"f" complete:"files" placeholder:"FILE" help:"Dockerfile, or hortus.yaml if the name ends in .yaml (default Dockerfile or hortus.yaml in the directory); - is a Dockerfile on stdin."`
	Tags    []string `name:"tag" placeholder:"TAG" help:"Tag of the template, besides one in the name (default: default, if there is no other). Repeatable."`
	Args    []string `name:"build-arg" sep:"none" placeholder:"NAME=VALUE" help:"Value of an ARG of the Dockerfile. Not for secrets: it is in the records of the build. Repeatable."`
	Target  string   `placeholder:"STAGE" help:"Stage to build (default: the last one)."`
	Start   string   `placeholder:"CMD" help:"Shell command that runs in each sandbox of the template, such as a server."`
	Ready   string   `placeholder:"CMD" help:"Shell command that succeeds when the start command is ready; it is repeated for up to 5 minutes."`
	Egress  []string `sep:"none" placeholder:"VALUE" help:"What the steps may connect to: none (default), a preset (npm, pip, go, apt, registries, git, models), or a host. Repeatable; docs/egress.md."`
	Secret  []string `sep:"none" complete:"secrets" placeholder:"[ID=]NAME" help:"Secret that steps may use with RUN --mount=type=secret,id=ID (default: its name), and never see: they have a placeholder for it. Repeatable; docs/templates.md."`
	IDEPort int      `name:"ide-port" placeholder:"PORT" help:"Port at which the sandboxes of the template have an editor, for hortus sandbox ide. It makes their ports private."`
	NoCache bool     `name:"no-cache" help:"Run every step, also those that were run before."`
	flags.Backend
	flags.Bounds
}

// Help returns what the first line of help does not.
func (templateBuildCmd) Help() string {
	return `Each step runs in a sandbox, without network unless --egress allows it. Steps that were run before, with the same
files, are taken from the cache. docs/templates.md lists the instructions.

Examples:

    hortus template build web .
    hortus template build web:v2 --tag latest .
    hortus template build web ./web --egress npm --start 'node server.js' --ready 'curl -sf localhost:3000'
    hortus template build app . --secret npm-token --egress npm
    hortus template build tools -f tools.Dockerfile --build-arg VERSION=3 .`
}

// Run builds a template and prints the ID of its snapshot. Ctrl-C ends the build.
func (c *templateBuildCmd) Run(ctx app.Context, a *app.App) error {
	if c.Dir == "" && (c.Name == "." || c.Name == ".." || strings.ContainsRune(c.Name, filepath.Separator)) {
		c.Name, c.Dir = "", c.Name
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	if c.Name == "" {
		c.Name = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-"), "-")
	}
	req := api.BuildTemplate{Name: c.Name, Tags: c.Tags, Target: c.Target, Start: c.Start, Ready: c.Ready, Isolation: c.Isolation, NoCache: c.NoCache, IDEPort: c.IDEPort}
	text, isYAML, err := c.steps(a, dir)
	if err != nil {
		return err
	}
	if isYAML {
		req.YAML = text
	} else {
		req.Dockerfile = text
	}
	if req.Args, err = flags.Assignments("--build-arg", c.Args); err != nil {
		return err
	}
	if req.Secrets, err = secretsByID(c.Secret); err != nil {
		return err
	}
	if req.Limits, err = c.Limits(); err != nil {
		return err
	}
	if req.Egress, err = flags.Policy("--egress", c.Egress); err != nil {
		return err
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if !copies.MatchString(text) {
		dir = ""
	}
	return build(ctx, a, cl, stop, req, dir)
}

// build builds a template, with the files of a directory unless it is empty, and prints the ID of its snapshot.
func build(ctx context.Context, a *app.App, cl *client.Client, stop *terminal.Interrupts, req api.BuildTemplate, dir string) (err error) {
	p := progress.New(a.Env, a.Flags.Quiet, "template "+req.Name)
	defer p.Close()
	work, done := stop.Cancel(ctx, func() { p.Say("cancelling") })
	defer done()
	began := time.Now()
	if dir != "" {
		p.Doing("upload %s", dir)
		if req.Files, err = uploadFiles(work, cl, dir); err != nil {
			return notBuilt(req.Name, err)
		}
	}
	s, err := cl.Templates.Build(work, req, func(l api.BuildLine) {
		if l.Output != nil {
			p.Say("  " + human.Sanitize(*l.Output))
			return
		}
		step := human.Truncate(strings.Join(strings.Fields(l.Step), " "), 100)
		p.Say(step)
		p.Doing("%s", step)
	})
	if err != nil {
		return notBuilt(req.Name, err)
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	a.Note("template %s is ready after %s: %s, %s, isolation %s", strings.Join(s.Names(), ", "), human.Duration(time.Since(began)), KindText(s.Kind), human.Size(s.Bytes), s.Image.Backend)
	noteListeners(a, s)
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(s.ID)))
	return err
}

func notBuilt(name string, err error) error {
	if api.KindOf(err) == api.KindCanceled {
		err = api.Errorf(api.KindCanceled, "template %s was not built: cancelled", name)
	}
	return err
}

// secretsByID reads [ID=]NAME.
func secretsByID(values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		id, name, ok := strings.Cut(v, "=")
		if !ok {
			name = id
		}
		if !api.ValidSecretName(name) || id == "" {
			return nil, api.Errorf(api.KindInvalid, "--secret: %.80q is not [ID=]NAME with the name of a secret", v).WithHint("list them: hortus secret ls")
		}
		if out[id] != "" {
			return nil, api.Errorf(api.KindInvalid, "--secret: the id %.80q is there twice", id)
		}
		out[id] = name
	}
	return out, nil
}

// copies finds a COPY or ADD in a Dockerfile, and copy in a hortus.yaml.
var copies = regexp.MustCompile(`(?mi)^\s*(COPY|ADD)[\s:]|[{,]\s*copy\s*:`)

// maxDockerfile bounds the file, in bytes; the daemon has the same limit.
const maxDockerfile = 256 << 10

// steps reads the Dockerfile, or the hortus.yaml.
func (c *templateBuildCmd) steps(a *app.App, dir string) (text string, isYAML bool, err error) {
	var in io.Reader = a.Env.Stdin
	name := c.File
	if name != "-" {
		if name == "" {
			name = filepath.Join(dir, "Dockerfile")
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && c.File == "" {
			if f, err = os.Open(filepath.Join(dir, "hortus.yaml")); err == nil {
				name = f.Name()
			}
		}
		if err != nil {
			e := api.Errorf(api.KindNotFound, "read the Dockerfile: %w", err)
			if c.File == "" {
				e = api.Errorf(api.KindNotFound, "%s has no Dockerfile and no hortus.yaml", dir).WithHint("name it with -f FILE, and the directory of the build as the last argument")
			}
			return "", false, e
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxDockerfile+1))
	if err == nil && len(b) > maxDockerfile {
		err = fmt.Errorf("it has more than %d bytes", maxDockerfile)
	}
	if err != nil {
		return "", false, api.Errorf(api.KindInvalid, "read the Dockerfile %.200s: %w", name, err)
	}
	return string(b), strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"), nil
}

// uploadFiles uploads the files of a directory, and returns their ID.
func uploadFiles(ctx context.Context, cl *client.Client, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "open the directory of the build: %w", err)
	}
	defer root.Close()
	list, err := readIgnore(root)
	if err != nil {
		return "", err
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(w, root, list)
		w.CloseWithError(err)
		packed <- err
	}()
	id, err := cl.Templates.Upload(ctx, r)
	r.CloseWithError(errors.New("the daemon stopped reading"))
	if perr := <-packed; err != nil && perr != nil && api.KindOf(err) == api.KindUnavailable {
		err = api.Errorf(api.KindInvalid, "read the files of the build: %w", perr)
	}
	return id, err
}

// pack writes a tar archive of a directory. Links are not followed.
func pack(w io.Writer, root *os.Root, list ignore) error {
	out := tar.NewWriter(w)
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if list.ignores(name) {
			if d.IsDir() && !list.exceptions {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := root.Lstat(name)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, Mode: int64(fi.Mode().Perm()), Format: tar.FormatPAX}
		switch fi.Mode().Type() {
		case fs.ModeDir:
			h.Typeflag = tar.TypeDir
			h.Name += "/"
			return out.WriteHeader(h)
		case fs.ModeSymlink:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = root.Readlink(name); err != nil {
				return err
			}
			return out.WriteHeader(h)
		case 0:
		default:
			return nil // sockets, pipes and devices are no files of a build, as in Docker
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		h.Typeflag, h.Size = tar.TypeReg, fi.Size()
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyN(out, f, fi.Size()); err != nil {
			return fmt.Errorf("%s changed while it was read: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// ignore is what a .dockerignore lists.
type ignore struct {
	rules      []ignoreRule
	exceptions bool // some rules are exceptions
}

type ignoreRule struct {
	pattern string
	except  bool
}

// readIgnore reads the .dockerignore of a directory, if it has one.
func readIgnore(root *os.Root) (out ignore, err error) {
	f, err := root.Open(".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, api.Errorf(api.KindInvalid, "read .dockerignore: %w", err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if err := out.add(sc.Text()); err != nil {
			return out, err
		}
	}
	return out, sc.Err()
}

// add adds a line.
func (l *ignore) add(line string) error {
	p := strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	if p == "" || p[0] == '#' {
		return nil
	}
	p, except := strings.CutPrefix(p, "!")
	p = strings.TrimPrefix(path.Clean("/"+strings.TrimSpace(p)), "/")
	if p == "" {
		return nil
	}
	p = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(p) // they are not special
	if !doublestar.ValidatePattern(p) {
		return api.Errorf(api.KindInvalid, ".dockerignore: %.100q is not a pattern", line)
	}
	l.rules = append(l.rules, ignoreRule{p, except})
	l.exceptions = l.exceptions || except
	return nil
}

// ignores reports whether a path is left out. The last rule that matches it, or a directory above it, decides.
func (l ignore) ignores(name string) bool {
	for _, r := range slices.Backward(l.rules) {
		for at := name; at != "."; at = path.Dir(at) {
			if doublestar.MatchUnvalidated(r.pattern, at) {
				return !r.except
			}
		}
	}
	return false
}
