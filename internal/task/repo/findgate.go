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
func (w judge) findGate(ctx context.Context) error {
	if w.req.Verify != "" {
		w.res.Verify, w.res.VerifyFrom = w.req.Verify, "asked"
		return w.save(ctx)
	}
	if !w.members.several() {
		c, err := w.members[0].ownGate(ctx)
		if err != nil && !(talk{w.work}).gateless(err) {
			return err
		}
		w.res.Verify, w.res.VerifyFrom = c.Text, c.From
		return w.save(ctx)
	}
	// Each repository has its own, and all of them must pass. One without tests has none.
	var commands, from []string
	for i, m := range w.members {
		c, err := m.ownGate(ctx)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		w.res.Repositories[i].Verify = c.Text
		commands, from = append(commands, "(cd "+m.Name+" && "+c.Text+")"), append(from, m.at(c.From))
	}
	if len(commands) == 0 {
		return api.Errorf(api.KindNotFound, "none of the %d repositories has a known test command", len(w.members)).
			WithHint("Set the gate command, which runs in the directory above them, for example --verify 'cd %s && make check'.", w.members[0].Name)
	}
	w.res.Verify, w.res.VerifyFrom = strings.Join(commands, " && "), strings.Join(from, ", ")
	return w.save(ctx)
}

// ownGate finds the test command of a repository.
func (m *member) ownGate(ctx context.Context) (gate.Command, error) {
	// What is off limits is not in the gate's sandbox either.
	files, _, err := m.visible(ctx)
	if err != nil {
		return gate.Command{}, err
	}
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
	return gate.Detect(t)
}

// watched reports whether a change of a file of the workspace puts the word of the gate in doubt.
func (w judge) watched(p string) bool {
	if !w.members.several() {
		return gate.Watched(w.res.Verify, p)
	}
	if w.req.Verify != "" && gate.Watched(w.req.Verify, p) {
		return true
	}
	dir, rest, _ := strings.Cut(p, "/")
	for _, r := range w.res.Repositories {
		if r.Name == dir {
			return gate.Watched(r.Verify, rest)
		}
	}
	return false
}
