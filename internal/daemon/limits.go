package daemon

import (
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
)

// limitsOf reads what bounds sandboxes whose maker has no words for limits. What
// nobody set stays zero: a default that this host cannot enforce is no error.
func limitsOf(conf *config.Config) (l api.Limits, err error) {
	read := func(key string, parse func(text string) error) {
		v := conf.Get(key)
		if err != nil || v.Text == "" || v.Origin.Kind == config.FromDefault {
			return
		}
		if perr := parse(v.Text); perr != nil {
			err = api.Errorf(api.KindInvalid, "%s: %w", key, perr)
		}
	}
	size := func(to *int64) func(string) error {
		return func(text string) (err error) { *to, err = config.ParseSize(text); return err }
	}
	read("sandbox.memory", size(&l.MemoryBytes))
	read("sandbox.disk", size(&l.DiskBytes))
	read("sandbox.output-limit", size(&l.OutputBytes))
	read("sandbox.cpus", func(text string) (err error) { l.CPUs, err = strconv.ParseFloat(text, 64); return err })
	read("sandbox.pids", func(text string) (err error) { l.Processes, err = strconv.ParseInt(text, 10, 64); return err })
	read("sandbox.cpu-time", func(text string) error {
		d, err := config.ParseDuration(text)
		l.CPUTimeMS = d.Milliseconds()
		return err
	})
	return l, err
}
