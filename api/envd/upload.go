package envd

import (
	"io/fs"
	"net/url"
	"strconv"
	"time"

	"hortus.dev/api"
)

// Upload is how a file is written: parameters of POST /files that E2B's guest does not have.
// The zero Upload writes into the file that is there, as E2B's does.
type Upload struct {
	// Aside writes a new file beside the old one and renames it when it is whole: a failure
	// leaves the old one. A file with several names, and one in a directory that the user
	// cannot write, is written in place all the same.
	Aside bool
	// Mode are the permissions, of 0o777; nil means those of the file that is there, or of a
	// new one.
	Mode *fs.FileMode
	// ModTime is the time of the last change; zero means now.
	ModTime time.Time
	// Link makes a symbolic link with this target, in place of a file. The body is empty.
	Link string
}

// The names of the parameters.
const (
	paramAside = "aside" // true
	paramMode  = "mode"  // octal
	paramMTime = "mtime" // RFC 3339
	paramLink  = "link"
)

// set adds the parameters to a query.
func (u Upload) set(q url.Values) {
	if u.Aside {
		q.Set(paramAside, "true")
	}
	if u.Mode != nil {
		q.Set(paramMode, strconv.FormatUint(uint64(u.Mode.Perm()), 8))
	}
	if !u.ModTime.IsZero() {
		q.Set(paramMTime, u.ModTime.UTC().Format(time.RFC3339Nano))
	}
	if u.Link != "" {
		q.Set(paramLink, u.Link)
	}
}

// ParseUpload reads the parameters of a request: KindInvalid if one is malformed.
func ParseUpload(q url.Values) (Upload, error) {
	var u Upload
	u.Link = q.Get(paramLink)
	switch aside := q.Get(paramAside); aside {
	case "", "false":
	case "true":
		u.Aside = true
	default:
		return u, api.Errorf(api.KindInvalid, "%s is %.20q; true or false is expected", paramAside, aside)
	}
	if s := q.Get(paramMode); s != "" {
		n, err := strconv.ParseUint(s, 8, 32)
		if err != nil || n > 0o777 {
			return u, api.Errorf(api.KindInvalid, "%s is %.20q; an octal number up to 777 is expected", paramMode, s)
		}
		m := fs.FileMode(n)
		u.Mode = &m
	}
	if s := q.Get(paramMTime); s != "" {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || t.Year() < 1970 || t.Year() > 2261 {
			return u, api.Errorf(api.KindInvalid, "%s is %.40q; a time of RFC 3339 is expected, from 1970 to 2261", paramMTime, s)
		}
		u.ModTime = t
	}
	return u, nil
}
