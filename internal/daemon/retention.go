package daemon

import (
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/config"
	"hortus.dev/internal/retention"
)

// keepOf reads the bounds of what is kept from what is set.
func keepOf(conf *config.Config) (b retention.Bounds, err error) {
	if b.Rows, err = strconv.Atoi(conf.Get("daemon.keep-rows").Text); err != nil {
		return b, api.Errorf(api.KindInvalid, "daemon.keep-rows: %w", err)
	}
	if b.Age, err = config.ParseStay(conf.Get("daemon.keep-ended").Text); err == nil && b.Age == 0 {
		b.Age = 1 // Bounds take 0 for the default
	}
	return b, err
}

// openRetention starts to remove records of what has ended.
func (s *System) openRetention() {
	k := retention.New(retention.Config{Prune: s.db.Prune, Bounds: s.cfg.Keep, Logger: s.log})
	s.onClose(k.Close)
}
