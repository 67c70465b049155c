package cli

import (
	"math"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// size is a number of bytes as people write it: "512M", "1GiB", "65536". Units
// are powers of 1024; the "i" and the "B" may be left out.
type size int64

// UnmarshalText reads a size above 0.
func (s *size) UnmarshalText(text []byte) error {
	n, err := parseSize(string(text))
	*s = size(n)
	return err
}

func parseSize(text string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(t, "abcdefghijklmnopqrstuvwxyz ")
	unit := strings.TrimSpace(t[len(digits):])
	if unit != "b" {
		unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	}
	shift, ok := map[string]int{"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit]
	bad := api.Errorf(api.KindInvalid, "%.40q is no size", text).WithHint("write it as 512M, 1GiB or a number of bytes")
	if !ok || digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return 0, bad
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, bad
	}
	f = math.Floor(f * float64(int64(1)<<shift))
	switch {
	case f < 1:
		return 0, api.Errorf(api.KindInvalid, "the size %.40q is not above 0", text).WithHint("leave the flag out for the default")
	case f >= 1<<62:
		return 0, api.Errorf(api.KindInvalid, "the size %.40q is too large", text)
	}
	return int64(f), nil
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
	v, err := parseDuration(string(text))
	*d = duration(v)
	return err
}

func parseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, api.Errorf(api.KindInvalid, "%.40q is no duration", text).WithHint("write it as 30s, 5m or 1h30m")
	}
	if v < time.Millisecond {
		return 0, api.Errorf(api.KindInvalid, "the duration %.40q is below a millisecond", text).WithHint("leave the flag out for the default")
	}
	return v, nil
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
