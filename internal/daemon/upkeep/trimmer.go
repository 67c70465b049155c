package upkeep

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// trimEvery is the time between two looks at the layers although none was added: what was in
// use may not be any more.
const trimEvery = 10 * time.Minute

// Trimmer keeps the layers of a keeper within their budget: whenever one was added, and at
// intervals. Make one with NewTrimmer, and close it.
type Trimmer struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewTrimmer starts a trimmer. added has something when a layer was added; every is the
// interval, 10 minutes if it is 0.
func NewTrimmer(k *Keeper, added <-chan struct{}, every time.Duration) *Trimmer {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Trimmer{cancel: cancel}
	every = cmp.Or(every, trimEvery)
	t.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-added:
			case <-tick.C:
			}
			if _, err := k.TrimLayers(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Logger.Error("cannot keep the layers within their maximum size", "error", err)
			}
		}
	})
	return t
}

// Close ends the trimmer and waits for it.
func (t *Trimmer) Close(context.Context) error {
	t.cancel()
	t.wg.Wait()
	return nil
}
