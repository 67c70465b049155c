package lifetime

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLifetime: the end is at the last deadline, and the time in which the guest is quiet does not count.
func TestLifetime(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(l *Lifetime)
		ends time.Duration // 0 for never
	}{
		"no deadline":             {func(*Lifetime) {}, 0},
		"a deadline":              {func(l *Lifetime) { l.Set(time.Minute) }, time.Minute},
		"a later one":             {func(l *Lifetime) { l.Set(time.Minute); time.Sleep(time.Second); l.Set(time.Hour) }, time.Hour + time.Second},
		"an earlier one":          {func(l *Lifetime) { l.Set(time.Hour); l.Set(time.Minute) }, time.Minute},
		"none again":              {func(l *Lifetime) { l.Set(time.Minute); l.Set(0) }, 0},
		"quiet":                   {func(l *Lifetime) { l.Set(time.Minute); l.Pause(); time.Sleep(time.Hour); l.Resume() }, time.Hour + time.Minute},
		"quiet twice":             {func(l *Lifetime) { l.Set(time.Minute); l.Pause(); l.Pause(); l.Resume(); l.Resume() }, time.Minute},
		"quiet for good":          {func(l *Lifetime) { l.Set(time.Minute); l.Pause() }, 0},
		"set while it is quiet":   {func(l *Lifetime) { l.Pause(); l.Set(time.Minute); time.Sleep(time.Hour); l.Resume() }, time.Hour + time.Minute},
		"none while it is quiet":  {func(l *Lifetime) { l.Set(time.Minute); l.Pause(); l.Set(0); l.Resume() }, 0},
		"resume of what is awake": {func(l *Lifetime) { l.Set(time.Minute); l.Resume() }, time.Minute},
		"closed":                  {func(l *Lifetime) { l.Set(time.Minute); l.Close() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var ended time.Duration
				l := New(func() { ended = time.Since(began) })
				defer l.Close()
				c.do(l)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if ended != c.ends {
					t.Errorf("ended after %s, want %s", ended, c.ends)
				}
			})
		})
	}
}
