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

// TemplateNames returns the names of a template with a name, NAME or NAME:TAG, and more tags, as rows
// have them. It refuses what is no name or tag.
func TemplateNames(name string, tags ...string) ([]string, error) {
	base, tag, tagged := strings.Cut(name, ":")
	if err := templateName(base); err != nil {
		return nil, err
	}
	if tagged {
		tags = append(tags[:len(tags):len(tags)], tag)
	}
	if len(tags) == 0 {
		return []string{base}, nil
	}
	if len(tags) > api.MaxTemplateNames {
		return nil, api.Errorf(api.KindInvalid, "template %s with %d tags: the maximum is %d", base, len(tags), api.MaxTemplateNames)
	}
	var out []string
	for _, t := range tags {
		if !api.ValidTag(t) {
			return nil, api.Errorf(api.KindInvalid, "%.80q is not a valid tag", t).
				WithHint("use 1 to %d letters, digits, _, . and -, beginning with a letter, a digit or _", api.MaxTag)
		}
		out = append(out, api.JoinTemplateName(base, t))
	}
	return out, nil
}

// templateName refuses what is no name of a template without a tag.
func templateName(name string) error {
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
