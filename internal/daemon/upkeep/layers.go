package upkeep

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/layer"
)

// layerRest is how long after its last use a layer is kept although layers take too much:
// its creator has not said yet what it is for.
const layerRest = time.Minute

// unused is why a layer may go.
const unused = "not used by any template, snapshot, workspace or sandbox"

// candidate is a layer that nothing names and nobody holds.
type candidate struct {
	digest layer.Digest
	bytes  int64
	used   time.Time
}

// layers takes trees that nothing names and nobody uses: those of the host, which change with it; those
// that were last used before the cutoff; and, if all layers together exceed their budget, the ones
// that were not used for the longest time.
func (c *collection) layers(ctx context.Context) error {
	return c.named(ctx, func(named []layer.Digest) error {
		list, total, err := c.candidates(ctx, named)
		if err != nil {
			return err
		}
		budget, now := c.k.cfg.LayerBytes, c.k.cfg.Now()
		for _, l := range list {
			why := ""
			switch {
			case !c.cutoff.IsZero() && strings.HasPrefix(string(l.digest), "host-"):
				why = unused
			case !c.cutoff.IsZero() && !l.used.After(c.cutoff):
				why = unused + " since " + l.used.Format(time.DateOnly)
			case budget > 0 && total > budget && now.Sub(l.used) >= layerRest:
				why = fmt.Sprintf("layers take %d MB of at most %d, and this one was not used since %s", total/1e6, budget/1e6, l.used.UTC().Format(time.RFC3339))
			default:
				continue
			}
			before := c.out.Bytes
			err = c.take(ctx, admin.PartLayers, string(l.digest), filepath.Join(c.k.cfg.Layers.Dir(), string(l.digest)), why, func() error {
				return unlessHeld(c.k.cfg.Layers.Remove(l.digest))
			})
			if err != nil {
				return err
			}
			total -= c.out.Bytes - before
		}
		return nil
	})
}

// candidates lists the layers that may go, the one first that was not used for the longest time.
// total is what all layers take, in bytes.
func (c *collection) candidates(ctx context.Context, named []layer.Digest) (list []candidate, total int64, err error) {
	s := c.k.cfg.Layers
	all, err := s.List()
	if err != nil {
		return nil, 0, err
	}
	for _, d := range all {
		l := candidate{digest: d}
		if l.bytes, err = c.k.layerSize(ctx, d); err != nil {
			return nil, 0, err
		}
		total += l.bytes
		if slices.Contains(named, d) {
			continue
		}
		held, err := s.Leased(d)
		if err != nil {
			return nil, 0, err
		}
		if held {
			continue
		}
		l.used, err = s.Used(d)
		if api.KindOf(err) == api.KindNotFound {
			continue // gone since
		}
		if err != nil {
			return nil, 0, err
		}
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return a.used.Compare(b.used) })
	return list, total, nil
}

// layerSize is what a layer takes. Layers do not change, so each is measured once; the caller
// holds the keeper's lock.
func (k *Keeper) layerSize(ctx context.Context, d layer.Digest) (int64, error) {
	if n, ok := k.sizes[d]; ok {
		return n, nil
	}
	n, err := size(ctx, filepath.Join(k.cfg.Layers.Dir(), string(d)))
	if err == nil && n > 0 {
		k.sizes[d] = n
	}
	return n, err
}

// TrimLayers removes layers that nothing uses, the ones first that were not used for the
// longest time, until all layers together take at most LayerBytes.
func (k *Keeper) TrimLayers(ctx context.Context) (admin.Collected, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &collection{k: k, out: admin.Collected{Items: []admin.CollectedItem{}}}
	if k.cfg.LayerBytes <= 0 {
		return c.out, nil
	}
	all, err := k.cfg.Layers.List()
	if err != nil {
		return c.out, err
	}
	var total int64
	for _, d := range all {
		n, err := k.layerSize(ctx, d)
		if err != nil {
			return c.out, err
		}
		total += n
	}
	for d := range k.sizes {
		if !slices.Contains(all, d) {
			delete(k.sizes, d)
		}
	}
	if total <= k.cfg.LayerBytes {
		return c.out, nil
	}
	err = c.layers(ctx)
	if len(c.out.Items) > 0 {
		k.cfg.Logger.Info("removed the layers that were used least recently", "layers", len(c.out.Items), "bytes", c.out.Bytes, "maximum", k.cfg.LayerBytes)
	}
	return c.out, err
}
