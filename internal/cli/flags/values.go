package flags

import (
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
)

// Span is a length of time that may count days and weeks: "7d", "2w", "36h".
type Span time.Duration

// longestSpan is a hundred years; more would overflow.
const longestSpan = 100 * 365 * 24 * time.Hour

// UnmarshalText reads a span above 0.
func (s *Span) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	days := map[string]float64{"d": 1, "w": 7}
	if n := len(t); n > 0 && days[t[n-1:]] > 0 {
		f, err := strconv.ParseFloat(t[:n-1], 64)
		if err == nil && f*days[t[n-1:]]*24 <= longestSpan.Hours() && f > 0 {
			*s = Span(f * days[t[n-1:]] * 24 * float64(time.Hour))
			return nil
		}
	} else if d, err := time.ParseDuration(t); err == nil && d > 0 && d <= longestSpan {
		*s = Span(d)
		return nil
	}
	return api.Errorf(api.KindInvalid, "%.40q is not a duration", text).WithHint("use for example 12h, 7d or 4w")
}

// Age is a duration that may be 0.
type Age time.Duration

// UnmarshalText reads a duration or 0.
func (d *Age) UnmarshalText(text []byte) error {
	if s := string(text); s == "0" || s == "0s" || s == "0d" {
		*d = 0
		return nil
	}
	v, err := config.ParseDuration(string(text))
	*d = Age(v)
	return err
}

// Size is a number of bytes as people write it: "512M", "1GiB", "65536". Units
// are powers of 1024; the "i" and the "B" may be left out.
type Size int64

// UnmarshalText reads a size above 0.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := config.ParseSize(string(text))
	*s = Size(n)
	return err
}

// Duration is a length of time as people write it: "30s", "5m", "1h30m".
type Duration time.Duration

// UnmarshalText reads a duration of at least a millisecond.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := config.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Milliseconds is the duration as the API takes it.
func (d Duration) Milliseconds() int64 { return time.Duration(d).Milliseconds() }

// Assignments reads repeated K=V flags.
func Assignments(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(list))
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		switch {
		case k == "" || strings.ContainsRune(s, 0):
			return nil, api.Errorf(api.KindInvalid, "%s: %.40q has no name", flag, s).WithHint("use NAME=VALUE")
		case !ok:
			return nil, api.Errorf(api.KindInvalid, "%s: %.40q has no value", flag, s).
				WithHint("write %s %.40s=VALUE; values are never taken from your environment, so that no secret enters a sandbox by accident", flag, k)
		}
		out[k] = v
	}
	return out, nil
}
