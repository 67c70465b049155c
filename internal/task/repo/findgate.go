package repo

import (
	"context"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
)

// findGate decides which command decides, before anybody works.
func (j *gates) findGate(ctx context.Context) error {
	if j.of.req.Verify != "" {
		j.of.res.Verify, j.of.res.VerifyFrom = j.of.req.Verify, "asked"
		return j.of.save(ctx)
	}
	if !j.of.members.several() {
		c, err := j.of.members[0].ownGate(ctx)
		if err != nil && !j.of.mayLackGate(err) {
			return err
		}
		j.of.res.Verify, j.of.res.VerifyFrom = c.Text, c.From
		return j.of.save(ctx)
	}
	// Each repository has its own, and all of them must pass. One without tests has none.
	var commands, from []string
	for i, m := range j.of.members {
		c, err := m.ownGate(ctx)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		j.of.res.Repositories[i].Verify = c.Text
		commands, from = append(commands, "(cd "+m.Name+" && "+c.Text+")"), append(from, m.at(c.From))
	}
	if len(commands) == 0 {
		return api.Errorf(api.KindNotFound, "none of the %d repositories has a known test command", len(j.of.members)).
			WithHint("Set the gate command, which runs in the directory above them, for example --verify 'cd %s && make check'.", j.of.members[0].Name)
	}
	j.of.res.Verify, j.of.res.VerifyFrom = strings.Join(commands, " && "), strings.Join(from, ", ")
	return j.of.save(ctx)
}

// ownGate finds the test command of a repository.
func (m *repository) ownGate(ctx context.Context) (gate.Command, error) {
	// What is off limits is not in the gate's sandbox either.
	files, _, err := m.visible(ctx)
	if err != nil {
		return gate.Command{}, err
	}
	return gate.Detect(m.tree(ctx, files))
}

// lint finds the lint command of a repository; empty if it has none.
func (m *repository) lint(ctx context.Context) (string, error) {
	files, _, err := m.visible(ctx)
	if err != nil {
		return "", err
	}
	return gate.Lint(m.tree(ctx, files)).Text, nil
}

// tree shows the base to what looks for commands.
func (m *repository) tree(ctx context.Context, files []cache.Entry) gate.Tree {
	t := gate.Tree{Read: func(p string) []byte {
		if m.files.OffLimits(p) != "" {
			return nil
		}
		b, err := m.repo.ReadFile(ctx, m.base.Hash, p, gate.MaxFile)
		if err != nil {
			return nil
		}
		return b
	}}
	for _, f := range files {
		if f.Mode == cache.Regular || f.Mode == cache.Executable {
			t.Paths = append(t.Paths, f.Path)
		}
	}
	slices.Sort(t.Paths)
	return t
}

// watched reports whether a change of a file of the workspace puts the word of the gate in doubt.
func (j *gates) watched(p string) bool {
	if !j.of.members.several() {
		return gate.Watched(j.of.res.Verify, p)
	}
	if j.of.req.Verify != "" && gate.Watched(j.of.req.Verify, p) {
		return true
	}
	dir, rest, _ := strings.Cut(p, "/")
	for _, r := range j.of.res.Repositories {
		if r.Name == dir {
			return gate.Watched(r.Verify, rest)
		}
	}
	return false
}
