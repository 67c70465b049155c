package repo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/git/cache"
)

// checkout makes a layer of the commit, unless there is one.
func (w *work) checkout(ctx context.Context) error {
	return w.step(ctx, api.RepoStepEvent{Step: "checkout"}, func() (string, error) {
		remote, err := w.cfg.Git.Remote(w.req.URL)
		if err != nil {
			return "", err
		}
		// The address is in the key: what one repository has under the name of a commit is
		// never the layer of another one.
		key := remote.BranchKey(w.base.Branch)
		name := "checkout 2 " + key + " " + w.base.Hash + " " + checkoutBranch(w.base) + w.leftOut()
		built, began := false, w.cfg.Now()
		write := func(ctx context.Context, dir string) error {
			built = true
			_, err := w.repo.Checkout(ctx, w.base.Hash, dir, cache.CheckoutOptions{Branch: checkoutBranch(w.base), Depth: historyDepth, Files: w.files})
			return err
		}
		// Of the tasks that need it at the same time, one writes it.
		_, _, err = w.checkouts.Do(ctx, name, nil, func(ctx context.Context, _ *flight.Flight) (struct{}, error) {
			_, release, err := w.cfg.Computers.Layer(ctx, name, write)
			if err == nil {
				release()
			}
			return struct{}{}, err
		})
		if err != nil {
			return "", err
		}
		layer, release, err := w.cfg.Computers.Layer(ctx, name, write)
		if err != nil {
			return "", err
		}
		w.layer, w.release = layer, append(w.release, release)
		w.tiers(ctx, key, built, w.cfg.Now().Sub(began))
		files, offLimits, err := w.visible(ctx)
		if err != nil {
			return "", err
		}
		w.res.OffLimits = offLimits
		if w.outside, err = w.repo.Outside(ctx, files); err != nil {
			return "", err
		}
		return contents(len(files), offLimits, w.outside, built), w.save(ctx)
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
func (w *work) tiers(ctx context.Context, key string, built bool, took time.Duration) {
	tier := func(name string, hit bool, took time.Duration) {
		w.job.Emit.Emit(ctx, api.EventTier, api.TierEvent{Part: "repository", Tier: name, Hit: hit, Key: key, Commit: w.base.Hash, MS: took.Milliseconds()})
	}
	if !built {
		tier(api.TierPacked, true, took)
		return
	}
	tier(api.TierPacked, false, 0)
	if !w.cloned {
		tier(api.TierRaw, true, took)
		return
	}
	tier(api.TierRaw, false, 0)
	tier(api.TierCold, true, w.fetchTook+took)
}

// checkoutBranch is the branch that the agent finds itself on.
func checkoutBranch(c cache.Commit) string {
	if c.Branch != "" {
		return c.Branch
	}
	return "main"
}
