package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// withSecrets carries out a RUN that may use secrets, in a sandbox of its own that starts from the
// steps before. The sandbox has placeholders only: the host puts the values into requests, as for
// every sandbox with secrets. A placeholder is of one sandbox, so what the step keeps of it is
// worth nothing once this one has ended.
func (m *machine) withSecrets(ctx context.Context, from origin, s Step, out func(string)) (err error) {
	variables := map[string]string{} // by secret
	var grants []api.SecretGrant
	for _, x := range s.Secrets {
		if variables[x.Name] == "" {
			variables[x.Name] = fmt.Sprintf("HORTUS_SECRET_%d", len(grants))
			grants = append(grants, api.SecretGrant{Name: x.Name, Env: variables[x.Name]})
		}
	}
	if err := m.restart(ctx, from, grants); err != nil {
		return err
	}
	env := map[string]string{}
	for _, x := range s.Secrets {
		placeholder := m.row.Env[variables[x.Name]]
		if x.Env != "" {
			env[x.Env] = placeholder
		}
		if x.Path == "" {
			continue
		}
		file, err := m.path(ctx, x.Path)
		if err == nil {
			err = m.placeholder(ctx, s, file, placeholder, x.Mode)
		}
		if err != nil {
			return fmt.Errorf("file of secret %s: %w", x.Name, err)
		}
		defer func() {
			if rerr := m.guest.Remove(ctx, m.writer(), file); rerr != nil && api.KindOf(envd.APIError(rerr)) != api.KindNotFound {
				err = errors.Join(err, fmt.Errorf("remove file of secret %s: %w", x.Name, envd.APIError(rerr)))
			}
		}()
	}
	return m.runStep(ctx, s, env, out)
}

// placeholder writes the file of a secret for the user of a step.
func (m *machine) placeholder(ctx context.Context, s Step, file, text string, mode uint32) error {
	if _, err := m.guest.Stat(ctx, m.writer(), file); err == nil {
		return api.Errorf(api.KindConflict, "%.200q is there already", file).WithHint("give the secret another target")
	}
	user, err := m.identity(cmp.Or(s.User, m.user))
	if err != nil {
		return err
	}
	fresh, err := m.makeDir(ctx, path.Dir(file))
	if err != nil {
		return err
	}
	perm := fs.FileMode(mode)
	if err := m.guest.Upload(ctx, m.writer(), file, envd.Upload{Mode: &perm}, strings.NewReader(text)); err != nil {
		return envd.APIError(err)
	}
	return m.chown(ctx, user, append(fresh, file))
}
