package config

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Override sets the value of a setting to that of a command line flag. It must not be called
// while other goroutines read the configuration.
func (c *Config) Override(key, flag, text string) error {
	found := false
	for i := range c.values {
		if c.values[i].Setting.Key != key {
			continue
		}
		found = true
		if e := c.values[i].Setting.Check(text); e != nil {
			return api.Errorf(api.KindInvalid, "--%s: %s", flag, e.Message).WithHint("%s", e.Hint)
		}
		c.values[i].Text, c.values[i].Origin = text, Origin{Kind: FromFlag, Name: flag}
	}
	if !found {
		return api.Errorf(api.KindInternal, "--%s sets %q, which is no setting", flag, key)
	}
	return nil
}

// Reader reads values as Go types. After an error its methods return zero values; Err is the
// first error and names the setting.
type Reader struct {
	Config *Config
	Err    error
}

// read parses the text of a setting.
func read[T any](r *Reader, key string, parse func(string) (T, error)) (v T) {
	if r.Err != nil {
		return v
	}
	v, err := parse(r.Config.Get(key).Text)
	if err != nil {
		r.Err = api.Errorf(api.KindInvalid, "%s: %w", key, err)
	}
	return v
}

// Text reads a value as it is.
func (r *Reader) Text(key string) string { return r.Config.Get(key).Text }

// List returns the items of a setting of kind List.
func (r *Reader) List(key string) []string { return splitList(r.Config.Get(key).Text) }

// Bool reads a truth value.
func (r *Reader) Bool(key string) bool { return r.Config.Get(key).Text == "true" }

// Int reads a number.
func (r *Reader) Int(key string) int { return read(r, key, strconv.Atoi) }

// Room reads a number of bytes, which may be 0.
func (r *Reader) Room(key string) int64 {
	if r.Config.Get(key).Text == "0" {
		return 0
	}
	return read(r, key, ParseSize)
}

// Float reads a number with a fraction.
func (r *Reader) Float(key string) float64 {
	return read(r, key, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

// Duration reads a duration.
func (r *Reader) Duration(key string) time.Duration { return read(r, key, ParseDuration) }

// Stay reads a duration or "never", which is below 0.
func (r *Reader) Stay(key string) time.Duration { return read(r, key, ParseStay) }

// Level reads a log level.
func (r *Reader) Level(key string) slog.Level { return read(r, key, ParseLevel) }

// Limits reads the limits of sandboxes whose client cannot set any. A limit that nobody set
// stays zero, because a host need not enforce a default.
func (r *Reader) Limits() (l api.Limits) {
	set := func(key string) bool {
		v := r.Config.Get(key)
		return v.Text != "" && v.Origin.Kind != FromDefault
	}
	for key, to := range map[string]*int64{"sandbox.memory": &l.MemoryBytes, "sandbox.disk": &l.DiskBytes, "sandbox.output-limit": &l.OutputBytes} {
		if set(key) {
			*to = read(r, key, ParseSize)
		}
	}
	if set("sandbox.cpus") {
		l.CPUs = r.Float("sandbox.cpus")
	}
	if set("sandbox.pids") {
		l.Processes = int64(r.Int("sandbox.pids"))
	}
	if set("sandbox.cpu-time") {
		l.CPUTimeMS = r.Duration("sandbox.cpu-time").Milliseconds()
	}
	return l
}

// ParseLevel returns the log level with a name of Levels.
func ParseLevel(name string) (l slog.Level, err error) {
	for _, known := range Levels() {
		if name == known {
			return l, l.UnmarshalText([]byte(name))
		}
	}
	return l, api.Errorf(api.KindInvalid, "unknown log level %.40q", name).WithHint("use one of %s", strings.Join(Levels(), ", "))
}
