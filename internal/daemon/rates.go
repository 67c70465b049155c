package daemon

import (
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/door/access"
	"hortus.dev/internal/platform/config"
)

// ratesOf reads how often a key may ask from what is set.
func ratesOf(conf *config.Config) (r access.RatesConfig, err error) {
	for key, to := range map[string]*float64{"daemon.request-rate": &r.Requests, "daemon.create-rate": &r.Creates} {
		if *to, err = strconv.ParseFloat(conf.Get(key).Text, 64); err != nil {
			return r, api.Errorf(api.KindInvalid, "%s: %w", key, err)
		}
	}
	return r, nil
}
