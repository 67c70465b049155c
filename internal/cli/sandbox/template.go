package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/cli/terminal"
)

// TemplateCommand is "hortus template".
type TemplateCommand struct {
	Create templateCreateCmd `cmd:"" help:"Create a template: from a container image, or a warm one: boot a sandbox, run commands, save it with its running processes."`
	Build  templateBuildCmd  `cmd:"" help:"Build a template from a Dockerfile, in a sandbox."`
	Ls     templateLsCmd     `cmd:"" help:"List templates."`
	Show   templateShowCmd   `cmd:"" help:"Show a template."`
	Tag    templateTagCmd    `cmd:"" help:"Give a template more tags."`
	Export templateExportCmd `cmd:"" help:"Export a template as a container image, for docker load, podman load, skopeo and template create --from-image."`
	Rm     templateRmCmd     `cmd:"" aliases:"untag" help:"Remove templates by their names (alias: untag). A snapshot that has other tags keeps them."`
}

type templateCreateCmd struct {
	Name      string `arg:"" help:"Name of the template, NAME or NAME:TAG: lower-case letters, digits and -, and a tag (default default). An existing template with this name is replaced; running sandboxes keep the old one."`
	From      string `complete:"templates" placeholder:"NAME" help:"Template or snapshot to start from (default host)."`
	FromImage string `name:"from-image" complete:"images" placeholder:"REF" help:"Container image to make the template of: a reference such as python:3.12, or the path of a docker save archive or an OCI layout; docs/images.md."`
	Preset    string `placeholder:"NAME" help:"Preset to create the template of: browser, a Chromium that hortus sandbox browser and the console reach; or ide, an editor with a terminal that hortus sandbox ide and the console open; docs/templates.md. --from is what it starts from (default host, with this machine's Chromium or npm)."`
	flags.Backend
	flags.Bounds
	Env       []string       `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Environment variable for the commands and the processes that they leave running. Repeatable."`
	Commands  []string       `name:"run" sep:"none" placeholder:"CMD" help:"Shell command to run before saving; background processes are saved too. Repeatable: commands run in order, and each must succeed."`
	OnRestore string         `name:"on-restore" placeholder:"CMD" help:"Shell command that runs in each sandbox of the template before the sandbox is handed out, for at most 1 minute; for example, it has the processes that were saved seed their random numbers (default: that of --from)."`
	Timeout   flags.Duration `placeholder:"10m" help:"Timeout of each command."`
}

// Help returns what the first line of help does not.
func (templateCreateCmd) Help() string {
	return `Examples:

    hortus template create py --from-image python:3.12
    hortus template create py --from-image python:3.12 --isolation gvisor
    hortus template create tools --from-image ./tools.tar
    hortus template create browser --preset browser
    hortus template create ide --preset ide
    hortus template create numbers --from py --run 'python3 -m compileall -q /usr/local/lib'`
}

// Run makes a template and prints the id of its snapshot. Ctrl-C ends the making.
func (c *templateCreateCmd) Run(ctx app.Context, a *app.App) error {
	if c.FromImage != "" || a.Given("from-image") {
		return c.fromImage(ctx, a)
	}
	if c.Preset != "" || a.Given("preset") {
		return c.preset(ctx, a)
	}
	req := api.CreateTemplate{Name: c.Name, From: c.From, Isolation: c.Isolation, Run: c.Commands, OnRestore: c.OnRestore, TimeoutMS: c.Timeout.Milliseconds()}
	var err error
	if req.Limits, err = c.Limits(); err != nil {
		return err
	}
	if req.Env, err = flags.Assignments("--env", c.Env); err != nil {
		return err
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	s, err := makeTemplate(ctx, a, cl, req, stop)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	a.Note("template %s is ready after %s: %s, %s, isolation %s", s.Name, human.Duration(time.Since(began)), KindText(s.Kind), human.Size(s.Bytes), s.Image.Backend)
	noteListeners(a, s)
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(s.ID)))
	return err
}

// noteListeners warns of the processes of a template whose random numbers all its sandboxes share.
func noteListeners(a *app.App, s api.Snapshot) {
	if s.ListenersError != "" {
		a.Note("cannot list the processes of template %s that accept connections: %s", s.Name, s.ListenersError)
	}
	if len(s.Listeners) == 0 {
		return
	}
	for _, l := range s.Listeners {
		a.Note("warning: %s", shared(l))
	}
	if s.OnRestore == "" {
		a.Note("their random numbers and keys can be the same in all sandboxes of template %s; --on-restore, docs/forks.md#random-numbers-and-keys", s.Name)
	}
}

func shared(l api.Listener) string {
	return fmt.Sprintf("%s (process %d, port %d) has the same memory in each sandbox of the template", human.Truncate(l.Command, 40), l.PID, l.Port)
}

// makeTemplate shows the steps until the template is there or an interrupt ended it.
func makeTemplate(ctx context.Context, a *app.App, cl *client.Client, req api.CreateTemplate, stop *terminal.Interrupts) (api.Snapshot, error) {
	p := progress.New(a.Env, a.Flags.Quiet, "template "+req.Name)
	defer p.Close()
	ctx, done := stop.Cancel(ctx, func() { p.Say("cancelling") })
	defer done()
	s, err := cl.Templates.Create(ctx, req, func(step string) {
		// A command may have many lines; its beginning tells which it is.
		step = human.Truncate(strings.Join(strings.Fields(step), " "), 100)
		p.Say(step)
		p.Doing("%s", step)
	})
	if api.KindOf(err) == api.KindCanceled {
		err = api.Errorf(api.KindCanceled, "template %s was not created: cancelled", req.Name)
	}
	return s, err
}

// fromImage makes a template of an image and prints its ID.
func (c *templateCreateCmd) fromImage(ctx context.Context, a *app.App) error {
	if a.Given("from") {
		return api.Errorf(api.KindInvalid, "--from and --from-image exclude each other").WithHint("give one of them")
	}
	// What the environment says of limits and isolation is for sandboxes. --isolation is the default of the template's.
	for _, flag := range []string{"preset", "run", "on-restore", "env", "timeout", "memory", "cpus", "cpu-time", "pids", "disk", "output-limit"} {
		if a.Given(flag) {
			return api.Errorf(api.KindInvalid, "--%s and --from-image exclude each other: a template of an image is its files alone", flag).
				WithHint("create it first, then another one from it: hortus template create %s --from-image %.200s, then: hortus template create %s-2 --from %s --run CMD", c.Name, c.FromImage, c.Name, c.Name)
		}
	}
	reference, err := image.Locate(a, "--from-image", c.FromImage)
	if err != nil {
		return err
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	ctx, done := stop.Cancel(ctx, nil)
	defer done()
	began := time.Now()
	req := api.PullImage{Reference: reference, Name: c.Name}
	if a.Given("isolation") {
		req.Isolation = c.Isolation
	}
	img, err := image.Pull(ctx, a, cl, "template "+c.Name, req)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(img)
	}
	a.Note("template %s is ready after %s: image %s", img.Name, human.Duration(time.Since(began)), image.Short(img.Reference))
	for _, line := range image.Notes(img) {
		a.Note("%s", line)
	}
	_, err = fmt.Fprintln(a.Env.Stdout, human.Sanitize(img.ID))
	return err
}

// preset builds the template of a preset and prints the ID of its snapshot.
func (c *templateCreateCmd) preset(ctx app.Context, a *app.App) error {
	for _, flag := range []string{"run", "on-restore", "env", "timeout"} {
		if a.Given(flag) {
			return api.Errorf(api.KindInvalid, "--%s and --preset exclude each other", flag).
				WithHint("create it first, then another one from it: hortus template create %s-2 --from %s --run CMD", c.Name, c.Name)
		}
	}
	if !slices.Contains(api.Presets(), api.Preset(c.Preset)) {
		return api.Errorf(api.KindInvalid, "unknown preset %.40q", c.Preset).WithHint("there are %s and %s", api.PresetBrowser, api.PresetIDE)
	}
	req := api.BuildTemplate{Name: c.Name, Preset: api.Preset(c.Preset), From: c.From, Isolation: c.Isolation}
	var err error
	if req.Limits, err = c.Limits(); err != nil {
		return err
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	return build(ctx, a, cl, stop, req, "")
}

type templateLsCmd struct{}

// Run lists templates.
func (templateLsCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	list, err := cl.Templates.List(ctx)
	if err != nil {
		return err
	}
	if list, err = withUnnamed(ctx, cl, list); err != nil {
		return err
	}
	return app.ShowList(a, list, "NAME CONTENT ISOLATION SIZE AGE SNAPSHOT", func(t api.Template) []string {
		if img := t.Image; img != nil {
			content := "image " + human.Truncate(image.Short(img.Reference), 60)
			if img.Name == "" {
				content += " (no name)"
			}
			return []string{human.Sanitize(t.Name), content, human.Sanitize(cmp.Or(img.Isolation, "any")), human.Size(img.Bytes), human.Duration(time.Since(img.CreatedAt)), "-"}
		}
		s := t.Snapshot
		if s == nil {
			return []string{human.Sanitize(t.Name), "this machine's tools", "any", "-", "-", "-"}
		}
		return []string{human.Sanitize(t.Name), KindText(s.Kind), human.Sanitize(s.Image.Backend), human.Size(s.Bytes),
			human.Duration(time.Since(s.CreatedAt)), human.Sanitize(string(s.ID))}
	})
}

// withUnnamed adds the images that have no name: sandboxes can start from their IDs.
func withUnnamed(ctx context.Context, cl *client.Client, list []api.Template) ([]api.Template, error) {
	images, err := cl.Images.List(ctx)
	switch api.KindOf(err) {
	case api.KindUnsupported, api.KindNotFound: // a daemon without images
		return list, nil
	}
	for _, img := range images {
		if img.Name == "" {
			list = append(list, api.Template{Name: img.ID, Image: &img})
		}
	}
	return list, err
}

type templateShowCmd struct {
	Name string `arg:"" complete:"templates" help:"Template name, the ID of its snapshot, or the ID or reference of an image."`
}

// Run shows a template.
func (c *templateShowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if c.Name == api.HostTemplate {
		return showHost(ctx, a, cl)
	}
	s, img, err := findTemplate(ctx, cl, c.Name)
	switch {
	case err != nil:
		return err
	case img != nil:
		return image.Show(a, *img)
	}
	return showSnapshot(a, s)
}

// showHost shows the template that every machine has.
func showHost(ctx context.Context, a *app.App, cl *client.Client) error {
	d, err := cl.Doctor(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(d.Template)
	}
	w := a.Table()
	fmt.Fprintf(w, "template\t%s\ndigest\t%s\n", human.Sanitize(d.Template.Name), human.Sanitize(d.Template.Digest))
	if d.Template.Error != "" {
		fmt.Fprintf(w, "error\t%s\n", human.Sanitize(d.Template.Error))
	}
	for _, t := range d.Template.Tools {
		if t.Present {
			fmt.Fprintf(w, "tool\t%s %s\t%s\n", human.Sanitize(t.Name), human.Sanitize(t.Version), human.Sanitize(t.Path))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.Note("hortus doctor shows its libraries and what is missing")
	return nil
}

// namedSnapshot finds a template's snapshot. A plain one is not mistaken for a template.
func namedSnapshot(ctx context.Context, cl *client.Client, name string) (api.Snapshot, error) {
	s, err := cl.Snapshots.Get(ctx, name)
	if err == nil && s.Name == "" {
		err = api.Errorf(api.KindNotFound, "%s is a snapshot, not a template", s.ID).WithHint("hortus snapshot show %s", s.ID)
	}
	return s, app.Missing(err, "hortus template ls")
}

// findTemplate finds a template's snapshot, or the image of a name if no snapshot has it.
func findTemplate(ctx context.Context, cl *client.Client, name string) (api.Snapshot, *api.Image, error) {
	s, err := namedSnapshot(ctx, cl, name)
	kind := api.KindOf(err)
	if kind != api.KindNotFound && kind != api.KindInvalid {
		return s, nil, err
	}
	img, ierr := cl.Images.Get(ctx, name)
	switch ikind := api.KindOf(ierr); {
	case ierr == nil:
		return s, &img, nil
	case ikind == api.KindNotFound && kind == api.KindInvalid: // a reference
		return s, nil, ierr
	case ikind == api.KindNotFound, ikind == api.KindUnsupported, ikind == api.KindInvalid:
		return s, nil, err
	default:
		return s, nil, ierr
	}
}

type templateTagCmd struct {
	Name string   `arg:"" complete:"warm" help:"Template name, NAME or NAME:TAG, or the ID of its snapshot."`
	Tags []string `arg:"" name:"tag" help:"Tags to add, such as v2 or latest. Snapshots that have the tags lose them; one without any tag left is removed. default is the tag of the name alone."`
}

// Help returns what the first line of help does not.
func (templateTagCmd) Help() string {
	return `Examples:

    hortus template tag web v1
    hortus template tag web:v2 latest default`
}

// Run tags a template. A tag may have the template's name before it, as in docker tag.
func (c *templateTagCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	if c.Name == api.HostTemplate {
		return api.Errorf(api.KindInvalid, "template %s is built in and has no tags", c.Name)
	}
	s, img, err := findTemplate(ctx, cl, c.Name)
	if err != nil {
		return err
	}
	if img != nil {
		return api.Errorf(api.KindInvalid, "template %s is a container image, and has no tags", c.Name).
			WithHint("hortus template create NAME:TAG --from %s makes a template that can have some", c.Name)
	}
	base, _ := api.SplitTemplateName(s.Name)
	for i, t := range c.Tags {
		name, tag, both := strings.Cut(t, ":")
		switch {
		case both && name != base:
			return api.Errorf(api.KindInvalid, "template %s cannot have the name %.200s: only the tag can differ", base, t).
				WithHint("hortus template create %.63s --from %s makes a template with another name", name, s.Name)
		case both:
			c.Tags[i] = tag
		}
	}
	if s, err = cl.Snapshots.Tag(ctx, string(s.ID), c.Tags...); err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(s)
	}
	a.Note("snapshot %s is template %s", s.ID, strings.Join(s.Names(), ", "))
	return nil
}

type templateRmCmd struct {
	Names []string `arg:"" name:"name" complete:"warm" help:"Template names, NAME or NAME:TAG, the IDs of their snapshots, or the IDs or references of images."`
}

// Run removes templates.
func (c *templateRmCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	remove := func(ctx context.Context, name string) (removed any, err error) {
		if name == api.HostTemplate {
			return nil, api.Errorf(api.KindInvalid, "template %s is built in and cannot be removed", name)
		}
		s, img, err := findTemplate(ctx, cl, name)
		switch {
		case err != nil:
			return nil, err
		case img != nil:
			_, err = cl.Images.Remove(ctx, img.ID)
			return img, err
		}
		if s.HasName(name) && len(s.OtherNames) > 0 {
			_, tag := api.SplitTemplateName(name)
			return cl.Snapshots.Untag(ctx, string(s.ID), tag)
		}
		return cl.Snapshots.Remove(ctx, string(s.ID))
	}
	return app.Each(ctx, a, c.Names, "hortus template ls", remove, func(removed any) string {
		if s, ok := removed.(api.Snapshot); ok && s.State == api.SnapshotReady {
			return fmt.Sprintf("the tag is removed; snapshot %s is still template %s", s.ID, strings.Join(s.Names(), ", "))
		} else if ok {
			return fmt.Sprintf("template %s is removed, %s", strings.Join(s.Names(), ", "), human.Size(s.Bytes))
		}
		return fmt.Sprintf("image %s is removed; hortus gc frees the layers that nothing else uses", image.Short(removed.(*api.Image).Reference))
	})
}

type templateExportCmd struct {
	Name  string `arg:"" complete:"templates" help:"Template name, the ID of a snapshot, or the ID or reference of an image."`
	File  string `arg:"" complete:"files" help:"File to create; - is stdout. It has the form of an OCI layout and of docker save."`
	Force bool   `help:"Replace the file if it exists."`
}

// Help returns what the first line of help does not.
func (templateExportCmd) Help() string {
	return `Examples:

    hortus template export py py.tar
    hortus template export py - | docker load`
}

// Run writes the archive of a template. Ctrl-C ends the export and leaves no file.
func (c *templateExportCmd) Run(ctx app.Context, a *app.App) error {
	stdout := c.File == "-"
	switch {
	case stdout && a.Given("force"):
		return api.Errorf(api.KindInvalid, "--force is for a file, and - is stdout")
	case stdout && a.Flags.JSON:
		return api.Errorf(api.KindInvalid, "--json needs a file: the archive goes to stdout otherwise")
	case stdout:
		if f, ok := a.Env.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return api.Errorf(api.KindInvalid, "an archive is not written to a terminal").
				WithHint("hortus template export %.200s FILE.tar, or: hortus template export %.200s - | docker load", c.Name, c.Name)
		}
	case c.File == "":
		return api.Errorf(api.KindInvalid, "the name of the file is empty").WithHint("- is stdout")
	}
	stop := terminal.CatchInterrupts(a)
	defer stop.Close()
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	work, done := stop.Cancel(ctx, nil)
	defer done()
	began := time.Now()
	var n int64
	if stdout {
		n, err = exportTo(work, cl, c.Name, a.Env.Stdout)
	} else {
		n, err = c.toFile(work, cl)
	}
	switch {
	case api.KindOf(err) == api.KindCanceled:
		return api.Errorf(api.KindCanceled, "template %.200s was not exported: cancelled", c.Name)
	case !stdout && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)):
		return api.Errorf(api.KindExhausted, "no space left on the disk of %s: %w", filepath.Dir(c.File), err).WithHint("free space there, or write to another disk")
	case err != nil:
		return err
	}
	if a.Flags.JSON {
		return a.JSON(exportedTemplate{c.Name, c.File, n})
	}
	a.Note("template %s is exported after %s: %s", c.Name, human.Duration(time.Since(began)), human.Size(n))
	return nil
}

// exportedTemplate is what --json prints.
type exportedTemplate struct {
	Template string `json:"template"`
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
}

// toFile writes an archive under a temporary name in the file's directory, and renames it when it
// is complete.
func (c *templateExportCmd) toFile(ctx context.Context, cl *client.Client) (n int64, err error) {
	if !c.Force {
		if _, err := os.Lstat(c.File); err == nil {
			return 0, fileExists(c.File)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(c.File), ".hortus-export-*") // with mode 0600
	if err != nil {
		return 0, notWritten(err)
	}
	defer os.Remove(f.Name()) // a no-op once renamed
	defer f.Close()
	if n, err = exportTo(ctx, cl, c.Name, f); err != nil {
		return n, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return n, notWritten(err)
	}
	if c.Force {
		err = os.Rename(f.Name(), c.File)
	} else {
		err = renameNew(f.Name(), c.File)
	}
	if errors.Is(err, fs.ErrExist) {
		return n, fileExists(c.File)
	}
	return n, notWritten(err)
}

// renameNew renames a file to a name that does not exist yet.
func renameNew(old, name string) error {
	err := os.Link(old, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The file system has no hard links. The name is reserved, and then replaced.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	if err = os.Rename(old, name); err != nil {
		os.Remove(name)
	}
	return err
}

func fileExists(name string) error {
	return api.Errorf(api.KindExists, "%s exists already", name).WithHint("write to another file, or give --force to replace it")
}

func notWritten(err error) error {
	if err == nil {
		return nil
	}
	return api.Errorf(api.KindInvalid, "cannot write the archive: %w", err)
}

// exportTo writes an archive and returns its size.
func exportTo(ctx context.Context, cl *client.Client, name string, to io.Writer) (int64, error) {
	count := &countedWriter{w: to}
	w := bufio.NewWriterSize(count, 256<<10)
	if err := cl.Templates.Export(ctx, name, w); err != nil {
		return 0, err
	}
	err := w.Flush()
	return count.n, err
}

type countedWriter struct {
	w io.Writer
	n int64
}

func (c *countedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
