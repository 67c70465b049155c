package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"hortus.dev/api"
)

// ImageService makes container images available, for sandboxes to start from.
type ImageService struct{ service }

// Pull makes an image available. Its ID, or its name, is then a template of sandboxes. An image
// that the daemon has is not read again unless the request says so. progress, unless it is nil,
// gets each step as it begins. The end of ctx ends the pull, and no image is changed then.
func (s *ImageService) Pull(ctx context.Context, req api.PullImage, progress func(step string)) (api.Image, error) {
	resp, err := s.client.request(ctx, http.MethodPost, "/v1/images", nil, req)
	if err != nil {
		return api.Image{}, err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	for {
		var line api.ImageLine
		err := dec.Decode(&line)
		switch {
		case err != nil && ctx.Err() != nil:
			return api.Image{}, ctx.Err()
		case errors.Is(err, io.EOF):
			return api.Image{}, api.Errorf(api.KindUnavailable, "the daemon ended before image %.200s was pulled", req.Reference).
				WithHint("try again: layers that are complete are kept")
		case err != nil:
			return api.Image{}, api.Errorf(api.KindUnavailable, "the pull of image %.200s was interrupted: %w", req.Reference, err)
		case line.Error != nil:
			return api.Image{}, line.Error.Err()
		case line.Image != nil:
			return *line.Image, nil
		case line.Step != "" && progress != nil:
			progress(line.Step)
		}
	}
}

// List lists the images: those with the name of a template first, then the others by reference.
func (s *ImageService) List(ctx context.Context) ([]api.Image, error) {
	var out []api.Image
	return out, s.client.call(ctx, http.MethodGet, "/v1/images", nil, &out)
}

// Get returns an image by the name of its template, its ID or its reference. It fails with
// KindNotFound if the daemon does not have it.
func (s *ImageService) Get(ctx context.Context, name string) (api.Image, error) {
	return s.one(ctx, http.MethodGet, name)
}

// Remove removes an image, named as for [ImageService.Get]. Sandboxes that started from it
// continue.
func (s *ImageService) Remove(ctx context.Context, name string) (api.Image, error) {
	return s.one(ctx, http.MethodDelete, name)
}

func (s *ImageService) one(ctx context.Context, method, name string) (out api.Image, err error) {
	if !api.ValidImageName(name) {
		return out, api.Errorf(api.KindInvalid, "%.80q is not the name, the ID or the reference of an image", name)
	}
	return out, s.client.call(ctx, method, "/v1/images/"+url.PathEscape(name), nil, &out)
}
