package execserver

import (
	"context"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

type walkParams struct {
	pathParams
	Options struct {
		MaxDepth                int  `json:"maxDepth"`
		MaxDirectories          int  `json:"maxDirectories"`
		MaxEntries              int  `json:"maxEntries"`
		FollowDirectorySymlinks bool `json:"followDirectorySymlinks"`
		PruneHiddenDirectories  bool `json:"pruneHiddenDirectories"`
	} `json:"options"`
}

// walkAnswer is the answer to fs/walk.
type walkAnswer struct {
	Entries   []walkEntry `json:"entries"`
	Errors    []walkError `json:"errors"`
	Truncated bool        `json:"truncated"`
}

type walkEntry struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

type walkError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// walk lists directories below one, level by level.
func (s *session) walk(ctx context.Context, in walkParams) (any, error) {
	root, err := in.where()
	if err != nil {
		return nil, err
	}
	o := in.Options
	if o.MaxDirectories < 1 || o.MaxEntries < 1 || o.MaxDepth < 0 {
		return nil, api.Errorf(api.KindInvalid, "the bounds of a walk must be greater than zero")
	}
	directories, entries := min(o.MaxDirectories, maxWalked), min(o.MaxEntries, maxEntries)
	out := walkAnswer{Entries: []walkEntry{}, Errors: []walkError{}}
	type place struct {
		path  string
		depth int
	}
	// seen has the directories that links led to, so that a circle of links ends.
	seen := map[string]bool{root: true}
	queue := []place{{root, 0}}
	for n := 0; len(queue) > 0; n++ {
		at := queue[0]
		queue = queue[1:]
		if n >= directories {
			out.Truncated = true
			break
		}
		list, err := s.cfg.Sandbox.List(ctx, at.path)
		switch {
		case err != nil && (n == 0 || ctx.Err() != nil):
			return nil, err
		case err != nil:
			out.Errors = append(out.Errors, walkError{uriOf(at.path), api.Clip(err.Error(), maxName)})
			continue
		}
		for _, e := range list {
			p := path.Join(at.path, path.Base(e.Path))
			w := walkEntry{uriOf(p), "file"}
			switch {
			case e.Type == envd.FileTypeDirectory:
				w.Kind = "directory"
			case e.Type != envd.FileTypeFile:
				continue
			}
			if len(out.Entries) >= entries {
				out.Truncated = true
				return out, nil
			}
			if w.Kind == "directory" {
				if o.PruneHiddenDirectories && strings.HasPrefix(path.Base(p), ".") {
					continue
				}
				real := p
				if e.SymlinkTarget != nil {
					real = *e.SymlinkTarget
				}
				if e.SymlinkTarget != nil && !o.FollowDirectorySymlinks || seen[real] {
					continue
				}
				if at.depth < o.MaxDepth {
					seen[real] = true
					queue = append(queue, place{p, at.depth + 1})
				}
			}
			out.Entries = append(out.Entries, w)
		}
	}
	return out, nil
}
