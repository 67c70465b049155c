package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// ParseSize reads a number of bytes as people write it: "512M", "1GiB", "65536".
// Units are powers of 1024; the "i" and the "B" may be left out. It is above 0.
func ParseSize(text string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(t, "abcdefghijklmnopqrstuvwxyz ")
	unit := strings.TrimSpace(t[len(digits):])
	if unit != "b" {
		unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
	}
	shift, ok := map[string]int{"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit]
	bad := api.Errorf(api.KindInvalid, "%.40q is not a size", text).WithHint("use for example 512M, 1GiB or a number of bytes")
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
		return 0, api.Errorf(api.KindInvalid, "the size %.40q is not above 0", text).WithHint("omit it for the default")
	case f >= 1<<62:
		return 0, api.Errorf(api.KindInvalid, "the size %.40q is too large", text)
	}
	return int64(f), nil
}

// ParseDuration reads a length of time as people write it: "30s", "5m", "1h30m",
// "7d". It is at least a millisecond.
func ParseDuration(text string) (time.Duration, error) {
	bad := api.Errorf(api.KindInvalid, "%.40q is not a duration", text).WithHint("use for example 30s, 5m, 1h30m or 7d")
	t := strings.TrimSpace(text)
	var days time.Duration
	if n, rest, ok := strings.Cut(t, "d"); ok {
		whole, err := strconv.ParseUint(n, 10, 31)
		if err != nil || time.Duration(whole) > math.MaxInt64/(24*time.Hour) || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
			return 0, bad
		}
		days, t = time.Duration(whole)*24*time.Hour, rest
	}
	var v time.Duration
	if t != "" || days == 0 {
		var err error
		if v, err = time.ParseDuration(t); err != nil {
			return 0, bad
		}
	}
	if v > math.MaxInt64-days {
		return 0, bad
	}
	if v += days; v < time.Millisecond {
		return 0, api.Errorf(api.KindInvalid, "the duration %.40q is below a millisecond", text).WithHint("omit it for the default")
	}
	return v, nil
}

// Never is the text of a [Stay] without an end.
const Never = "never"

// ParseStay reads how long something stays: a duration, 0, or "never", which is
// below 0.
func ParseStay(text string) (time.Duration, error) {
	switch strings.TrimSpace(text) {
	case Never:
		return -1, nil
	case "0", "0s":
		return 0, nil
	}
	return ParseDuration(text)
}

// showSize writes a size so that ParseSize reads the same number.
func showSize(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (30 - 10*i); n >= one && n%one == 0 {
			return strconv.FormatInt(n/one, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10)
}

// showDuration writes a duration without the zeros at its end.
func showDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
