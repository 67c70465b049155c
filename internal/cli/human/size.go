package human

import (
	"strconv"
	"strings"
	"time"
)

// Milliseconds writes a number of milliseconds for people.
func Milliseconds(ms int64) string { return Duration(time.Duration(ms) * time.Millisecond) }

// Size writes a size for people.
func Size(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if one := int64(1) << (30 - 10*i); n >= one {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(one), 'f', 1, 64), ".0") + " " + unit
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// Duration writes a duration for people, with three digits at most.
func Duration(d time.Duration) string {
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
