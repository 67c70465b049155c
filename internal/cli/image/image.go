package image

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
	"hortus.dev/internal/platform/config"
)

// Locate returns the reference that an argument means. A path becomes absolute: one that begins
// with /, ./ or ../, or the name of a file or an OCI layout that exists here. A daemon of
// another machine cannot read it, so it is refused then.
func Locate(a *app.App, flag, reference string) (string, error) {
	if reference == "" {
		return "", api.Errorf(api.KindInvalid, "%s: the reference is empty", flag).WithHint("for example %s python:3.12", flag)
	}
	if !isPath(reference) {
		return reference, nil
	}
	switch r, remote, err := a.Remote(); {
	case err != nil:
		return "", err
	case remote:
		return "", api.Errorf(api.KindInvalid, "%s: %.200q is a path on this machine, which the daemon at %.100s cannot read", flag, reference, r.Host).
			WithHint("push the image to a registry that the daemon can reach, or run the command on the daemon's machine")
	}
	abs, err := filepath.Abs(reference)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "%s: %w", flag, err)
	}
	return abs, nil
}

// imageKey is the setting of --image.
const imageKey = "sandbox.image"

// isRelative reports whether a reference is written as a path below the current directory or
// the one above.
func isRelative(reference string) bool {
	return strings.HasPrefix(reference, "./") || strings.HasPrefix(reference, "../") || reference == "." || reference == ".."
}

// isPath reports whether a reference is meant as a path. A directory that happens to have the
// name of an image, such as python, is none.
func isPath(reference string) bool {
	if filepath.IsAbs(reference) || isRelative(reference) {
		return true
	}
	st, err := os.Stat(reference)
	if err != nil {
		return false
	}
	if st.IsDir() {
		_, err = os.Stat(filepath.Join(reference, "oci-layout"))
	}
	return err == nil
}

// origin is where the value of a flag is from: what is larger decides.
type origin int

const (
	ofFile origin = iota
	ofEnv
	ofCommand
)

// from returns where the value of a flag is from that has a setting.
func from(a *app.App, flag, key string) origin {
	switch {
	case a.Given(flag):
		return ofCommand
	case a.Config != nil && a.Config.Get(key).Origin.Kind == config.FromFile:
		return ofFile
	}
	return ofEnv
}

// Wanted returns the pull that --image asks for, nil if there is none. Of a template and an image,
// the command line decides before the environment, and that before the configuration file.
func Wanted(a *app.App, f *flags.Sandbox, req *api.CreateSandbox) (*api.PullImage, error) {
	if f.Image != "" && f.Template != "" {
		switch image, template := from(a, "image", imageKey), from(a, "template", "sandbox.template"); {
		case image == template:
			return nil, api.Errorf(api.KindInvalid, "--image and --template exclude each other").
				WithHint("give one of them; variables of the environment (HORTUS_IMAGE, HORTUS_TEMPLATE) and the configuration file (sandbox.image, sandbox.template) count")
		case image > template:
			req.Template = ""
		default:
			f.Image = ""
		}
	}
	if f.Image == "" {
		if f.Pull {
			return nil, api.Errorf(api.KindInvalid, "--pull is for --image, which is not given").WithHint("for example --image python:3.12 --pull")
		}
		return nil, nil
	}
	flag := "--image"
	if from(a, "image", imageKey) == ofFile {
		// What lies in the directory of a command does not decide what the file means.
		if flag = imageKey; isRelative(f.Image) {
			return nil, api.Errorf(api.KindInvalid, "%s: %.200q is a relative path", flag, f.Image).
				WithHint("write an absolute path, or a reference such as python:3.12, into %s", a.Config.Path)
		}
		if !filepath.IsAbs(f.Image) {
			return &api.PullImage{Reference: f.Image, Refresh: f.Pull}, nil
		}
	}
	reference, err := Locate(a, flag, f.Image)
	if err != nil {
		return nil, err
	}
	return &api.PullImage{Reference: reference, Refresh: f.Pull}, nil
}

// Use pulls an image, unless pull is nil, and makes it what the sandbox of the request starts
// from.
func Use(ctx context.Context, a *app.App, cl *client.Client, pull *api.PullImage, req *api.CreateSandbox) (api.Image, error) {
	if pull == nil {
		return api.Image{}, nil
	}
	img, err := Pull(ctx, a, cl, "image "+head(*pull), *pull)
	if api.KindOf(err) == api.KindDenied && !pull.Refresh {
		// A user's key cannot pull, and can use what the operator pulled.
		have, gerr := cl.Images.Get(ctx, tagged(pull.Reference))
		switch {
		case gerr == nil:
			img, err = have, nil
		case api.KindOf(gerr) == api.KindNotFound:
			err = api.Errorf(api.KindDenied, "%w, and image %.200s is not there", err, pull.Reference).
				WithHint("ask the operator of the daemon to pull it: hortus template create NAME --from-image %.200s", pull.Reference)
		}
	}
	if err == nil {
		req.Template = img.ID
	}
	return img, err
}

// head names an image in the lines of its progress.
func head(pull api.PullImage) string {
	if pull.FromFile() {
		return filepath.Base(pull.Reference)
	}
	return Short(pull.Reference)
}

// tagged returns a reference with a tag or a digest, so that it is not mistaken for a template.
func tagged(reference string) string {
	if strings.ContainsAny(reference[strings.LastIndexByte(reference, '/')+1:], ":@") {
		return reference
	}
	return reference + ":latest"
}

// stepEvery is how often the progress of one layer is printed if there is no terminal.
const stepEvery = 10 * time.Second

// Pull pulls an image and shows the steps below a head.
func Pull(ctx context.Context, a *app.App, cl *client.Client, head string, req api.PullImage) (api.Image, error) {
	p := progress.New(a.Env, a.Flags.Quiet, head)
	defer p.Close()
	img, err := cl.Images.Pull(ctx, req, func(step string) {
		step = human.Truncate(step, 100)
		if strings.HasSuffix(step, " so far") {
			if _, due := p.Refresh(step, stepEvery); due {
				p.Say(step)
			}
			return
		}
		p.Say(step)
		p.Doing("%s", step)
	})
	if api.KindOf(err) == api.KindCanceled {
		err = api.Errorf(api.KindCanceled, "image %.200s was not pulled: cancelled", req.Reference)
	}
	return img, err
}

// Short returns a reference without what is the default.
func Short(reference string) string {
	for _, host := range []string{"index.docker.io/", "docker.io/"} {
		if rest, ok := strings.CutPrefix(reference, host); ok {
			return strings.TrimPrefix(rest, "library/")
		}
	}
	return reference
}

// Notes says what a person should know about an image that was pulled.
func Notes(img api.Image) []string {
	command := "no command"
	if len(img.Command) > 0 {
		command = fmt.Sprintf("command %q", img.Command)
	}
	out := []string{fmt.Sprintf("%s, %s, user %s, %s", human.Size(img.Bytes), human.Count(len(img.Layers), "layer"), img.User, command)}
	if img.Skipped > 0 {
		out = append(out, human.Count(img.Skipped, "special file")+" (devices, pipes) not unpacked")
	}
	if img.Dropped > 0 {
		out = append(out, human.Count(img.Dropped, "attribute")+" (setuid bits, extended attributes) not kept")
	}
	return out
}

// Show prints an image.
func Show(a *app.App, img api.Image) error {
	return app.ShowOne(a, img, func(row func(name, value string)) {
		row("image", img.ID)
		row("template", img.Name)
		row("reference", img.Reference)
		row("digest", img.Digest)
		row("platform", img.Platform)
		row("layers", fmt.Sprint(len(img.Layers)))
		row("size", human.Size(img.Bytes))
		row("isolation", cmp.Or(img.Isolation, "the default of the API key or of the daemon"))
		row("user", img.User)
		row("working directory", img.WorkingDir)
		if len(img.Command) > 0 {
			row("command", fmt.Sprintf("%q", img.Command))
		}
		if len(img.Entrypoint) > 0 {
			row("entrypoint", fmt.Sprintf("%q", img.Entrypoint))
		}
		row("environment", strings.Join(img.Env, ", "))
		if img.Skipped > 0 {
			row("skipped", human.Count(img.Skipped, "special file")+" (devices, pipes)")
		}
		if img.Dropped > 0 {
			row("dropped", human.Count(img.Dropped, "attribute")+" (setuid bits, extended attributes)")
		}
		row("created", img.CreatedAt.Format(time.RFC3339))
		row("used", img.UsedAt.Format(time.RFC3339))
	})
}
