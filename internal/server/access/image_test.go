package access_test

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/storage/oci"
	"hortus.dev/internal/storage/oci/source"
)

// The store of images is one of the daemon's.
var _ access.ImageStore = (*oci.Images)(nil)

// imageShelf is one image, which counts what reaches it.
type imageShelf struct {
	img api.Image
	n   int
}

func (s *imageShelf) Pull(context.Context, api.PullImage, func(string)) (api.Image, error) {
	s.n++
	return s.img, nil
}
func (s *imageShelf) List() []api.Image { s.n++; return []api.Image{s.img} }
func (s *imageShelf) Find(string) (api.Image, error) {
	s.n++
	return s.img, nil
}
func (s *imageShelf) Remove(string) (api.Image, error) {
	s.n++
	return s.img, nil
}

// TestImagesAreTheOperators: what uses the operator's credentials, disk and files is for admins.
func TestImagesAreTheOperators(t *testing.T) {
	user := api.Principal{Role: api.RoleUser, Account: "a", Key: "k"}
	admin := api.Principal{Role: api.RoleAdmin, Account: "b", Key: "k"}
	const reference, file = "python:3.12", "/srv/python.tar"
	pull := func(i *access.Images, ctx context.Context, name string) (api.Image, error) {
		return i.Pull(ctx, api.PullImage{Reference: name}, nil)
	}
	list := func(i *access.Images, ctx context.Context, _ string) (api.Image, error) {
		l, err := i.List(ctx)
		if len(l) == 0 {
			return api.Image{}, err
		}
		return l[0], err
	}
	for _, c := range []struct {
		what string
		who  api.Principal
		name string
		do   func(*access.Images, context.Context, string) (api.Image, error)
		kind api.Kind
		sees string
	}{
		{"the operator pulls", api.Operator(), reference, pull, "", file},
		{"the operator pulls a file", api.Operator(), file, pull, "", file},
		{"an admin pulls", admin, reference, pull, "", file},
		{"an admin's key pulls a file", admin, file, pull, api.KindDenied, ""},
		{"a user pulls", user, reference, pull, api.KindDenied, ""},
		{"nobody pulls", api.Principal{}, reference, pull, api.KindUnauthenticated, ""},
		{"an admin removes", admin, reference, (*access.Images).Remove, "", file},
		{"a user removes", user, reference, (*access.Images).Remove, api.KindDenied, ""},
		{"nobody removes", api.Principal{}, reference, (*access.Images).Remove, api.KindUnauthenticated, ""},
		{"an admin gets", admin, file, (*access.Images).Get, "", file},
		{"a user gets", user, reference, (*access.Images).Get, "", "python.tar"},
		{"a user gets a file", user, file, (*access.Images).Get, api.KindNotFound, ""},
		{"nobody gets", api.Principal{}, reference, (*access.Images).Get, api.KindUnauthenticated, ""},
		{"an admin lists", admin, "", list, "", file},
		{"a user lists", user, "", list, "", "python.tar"},
		{"nobody lists", api.Principal{}, "", list, api.KindUnauthenticated, ""},
	} {
		s := &imageShelf{img: api.Image{ID: "0123456789ab", Reference: file}}
		img, err := c.do(access.NewImages(s), api.WithPrincipal(t.Context(), c.who), c.name)
		if calls := map[bool]int{true: 1}[c.kind == ""]; err != nil && api.KindOf(err) != c.kind || (err == nil) != (c.kind == "") || s.n != calls || img.Reference != c.sees {
			t.Errorf("%s: %+v, %v, %d calls", c.what, img, err, s.n)
		}
	}
}

// TestPathsOfImages: what is a path for the guard is one for the store.
func TestPathsOfImages(t *testing.T) {
	for _, s := range []string{"", "/", "/srv/a.tar", "//a", "./a", "../a", "a/b", "python:3.12", "~/a", "file:///a", " /a", "\x00/a"} {
		if got, want := (api.PullImage{Reference: s}).FromFile(), source.IsPath(s); got != want {
			t.Errorf("%q: %v, the store says %v", s, got, want)
		}
	}
}
