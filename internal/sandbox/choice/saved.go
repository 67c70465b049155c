package choice

import (
	"fmt"
	"strings"

	"hortus.dev/api"
)

// Differences names what of an image's mark is not as it is here.
func Differences(made, here api.ImageMark) string {
	var out []string
	for _, f := range []struct{ what, made, here string }{
		{"backend", made.Backend, here.Backend}, {"kernel", made.Kernel, here.Kernel},
		{"guest", made.Guest, here.Guest}, {"processor features", made.CPU, here.CPU},
	} {
		if f.made != f.here {
			out = append(out, fmt.Sprintf("it was made with %s %.80q, this host has %.80q", f.what, f.made, f.here))
		}
	}
	return strings.Join(out, "; ")
}

// TemplateName refuses what is no name of a template.
func TemplateName(name string) error {
	bad := name == "" || len(name) > 63 || name[0] == '-'
	for i := 0; i < len(name) && !bad; i++ {
		c := name[i]
		bad = c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	}
	switch {
	case bad:
		return api.Errorf(api.KindInvalid, "%.80q is not a valid template name", name).
			WithHint("use 1 to 63 lower-case letters, digits and -, beginning with a letter or a digit")
	case name == "host" || name == Auto:
		return api.Errorf(api.KindInvalid, "the name %q is reserved", name)
	case api.SnapshotID(name).Valid() || api.SandboxID(name).Valid():
		return api.Errorf(api.KindInvalid, "%q looks like an ID; a template needs another name", name)
	}
	return nil
}
