package repo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/git/cache"
)

// checkout makes a layer of the commit, unless there is one.
func (m *repository) checkout(ctx context.Context) error {
	return m.step(ctx, api.RepoStepEvent{Step: "checkout"}, func() (string, error) {
		remote, err := m.cfg.Git.Remote(m.URL)
		if err != nil {
			return "", err
		}
		// The address is in the key: what one repository has under the name of a commit is
		// never the layer of another one.
		key := remote.BranchKey(m.base.Branch)
		name := "checkout 2 " + key + " " + m.base.Hash + " " + checkoutBranch(m.base) + m.leftOut()
		if m.Name != "" {
			name += " in " + m.Name
		}
		built, began := false, m.cfg.Now()
		write := func(ctx context.Context, dir string) error {
			built = true
			_, err := m.repo.Checkout(ctx, m.base.Hash, filepath.Join(dir, m.Name), cache.CheckoutOptions{Branch: checkoutBranch(m.base), Depth: historyDepth, Files: m.files})
			return err
		}
		// Of the tasks that need it at the same time, one writes it.
		_, _, err = m.checkouts.Do(ctx, name, nil, func(ctx context.Context, _ *flight.Flight) (struct{}, error) {
			_, release, err := m.cfg.Sandboxes.Layer(ctx, name, write)
			if err == nil {
				release()
			}
			return struct{}{}, err
		})
		if err != nil {
			return "", err
		}
		layer, release, err := m.cfg.Sandboxes.Layer(ctx, name, write)
		if err != nil {
			return "", err
		}
		m.layer, m.release = layer, append(m.release, release)
		m.tiers(ctx, key, built, m.cfg.Now().Sub(began))
		files, offLimits, err := m.visible(ctx)
		if err != nil {
			return "", err
		}
		m.offLimits = offLimits
		if m.outside, err = m.repo.Outside(ctx, files); err != nil {
			return "", err
		}
		return contents(len(files), offLimits, m.outside, built), nil
	})
}

// contents describes a checkout.
func contents(files, offLimits int, outside cache.Outside, built bool) string {
	count := func(n int, noun string) string {
		if n != 1 {
			noun += "s"
		}
		return fmt.Sprintf("%d %s", n, noun)
	}
	parts := []string{count(files-len(outside.Submodules), "file")}
	if !built {
		parts[0] = "reused: " + parts[0]
	}
	if n := offLimits; n > 0 {
		parts = append(parts, fmt.Sprintf("%d off limits", n))
	}
	if n := len(outside.Submodules); n > 0 {
		parts = append(parts, count(n, "submodule")+" not fetched")
	}
	if n := outside.Pointers; n > 0 {
		parts = append(parts, count(n, "Git LFS pointer"))
	}
	return strings.Join(parts, ", ")
}

// tiers reports where the checkout came from: its layer, the copy of the repository, or the
// remote.
func (m *repository) tiers(ctx context.Context, key string, built bool, took time.Duration) {
	tier := func(name string, hit bool, took time.Duration) {
		m.tell(ctx, api.EventTier, api.TierEvent{Part: "repository", Tier: name, Hit: hit, Key: key, Commit: m.base.Hash, MS: took.Milliseconds()})
	}
	if !built {
		tier(api.TierPacked, true, took)
		return
	}
	tier(api.TierPacked, false, 0)
	if !m.cloned {
		tier(api.TierRaw, true, took)
		return
	}
	tier(api.TierRaw, false, 0)
	tier(api.TierCold, true, m.fetchTook+took)
}

// checkoutBranch is the branch that the agent finds itself on.
func checkoutBranch(c cache.Commit) string {
	if c.Branch != "" {
		return c.Branch
	}
	return "main"
}
