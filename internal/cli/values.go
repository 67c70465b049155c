package cli

import (
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
)

// size is a number of bytes as people write it: "512M", "1GiB", "65536". Units
// are powers of 1024; the "i" and the "B" may be left out.
type size int64

// UnmarshalText reads a size above 0.
func (s *size) UnmarshalText(text []byte) error {
	n, err := config.ParseSize(string(text))
	*s = size(n)
	return err
}

// showSize writes a size for people.
func showSize(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (30 - 10*i); n >= one {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(one), 'f', 1, 64), ".0") + " " + unit
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// duration is a length of time as people write it: "30s", "5m", "1h30m".
type duration time.Duration

// UnmarshalText reads a duration of at least a millisecond.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := config.ParseDuration(string(text))
	*d = duration(v)
	return err
}

func (d duration) ms() int64 { return time.Duration(d).Milliseconds() }

// showDuration writes a duration for people, with three digits at most.
func showDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// assignments reads repeated K=V flags.
func assignments(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(list))
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		switch {
		case k == "" || strings.ContainsRune(s, 0):
			return nil, api.Errorf(api.KindInvalid, "%s: %.40q has no name", flag, s).WithHint("write it as NAME=VALUE")
		case !ok:
			return nil, api.Errorf(api.KindInvalid, "%s: %.40q has no value", flag, s).
				WithHint("write %s %.40s=VALUE; values are never taken from your environment, so that no secret enters a sandbox by accident", flag, k)
		}
		out[k] = v
	}
	return out, nil
}
