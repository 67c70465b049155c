package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"hortus.dev/api"
)

// Canonical returns the complete form of a reference: registry, repository, and tag or digest.
// A path is returned unchanged. It fails with KindInvalid.
func Canonical(reference string) (string, error) {
	if IsPath(reference) {
		return reference, nil
	}
	ref, err := name.ParseReference(reference)
	if err != nil || len(reference) > 512 {
		return "", api.Errorf(api.KindInvalid, "%.200q is not a valid image reference", reference).
			WithHint("use NAME:TAG, REGISTRY/NAME:TAG or NAME@sha256:DIGEST, or the path of a docker save archive or an OCI layout")
	}
	return ref.Name(), nil
}

func openRegistry(ctx context.Context, reference string, cfg Config) (*Image, error) {
	full, err := Canonical(reference)
	if err != nil {
		return nil, err
	}
	ref, err := name.ParseReference(full)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "%.200q is not a valid image reference", reference)
	}
	platform := v1.Platform{OS: "linux", Architecture: cfg.Architecture}
	if platform.Architecture == "arm64" {
		platform.Variant = "v8"
	}
	cfg.Transport = &guardTransport{cfg.Transport, cfg.Stall}
	desc, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(cfg.Keychain), remote.WithTransport(cfg.Transport), remote.WithPlatform(platform))
	if err != nil {
		return nil, registryError(ctx, full, err)
	}
	if !desc.MediaType.IsImage() && !desc.MediaType.IsIndex() {
		return nil, api.Errorf(api.KindUnsupported, "image %s has the media type %.100q, which is neither an image nor an index of images", full, desc.MediaType)
	}
	if err := hasPlatform(desc, full, platform); err != nil {
		return nil, err
	}
	img, err := desc.Image()
	if err != nil {
		return nil, registryError(ctx, full, err)
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, registryError(ctx, full, err)
	}
	if m.Config.Size < 0 || m.Config.Size > maxDocument {
		return nil, api.Errorf(api.KindInvalid, "image %s: its configuration has %d bytes, the maximum is %d", full, m.Config.Size, maxDocument)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, registryError(ctx, full, err)
	}
	c, err := parseConfiguration(raw, cfg.Architecture, len(m.Layers))
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, registryError(ctx, full, err)
	}
	out := &Image{Reference: full, Digest: digest.String()}
	out.apply(c)
	for i, d := range m.Layers {
		blob := ref.Context().Digest(d.Digest.String())
		out.Layers = append(out.Layers, Layer{DiffID: c.RootFS.DiffIDs[i], Size: d.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
			l, err := remote.Layer(blob, remote.WithContext(ctx), remote.WithAuthFromKeychain(cfg.Keychain), remote.WithTransport(cfg.Transport))
			if err != nil {
				return nil, registryError(ctx, full, err)
			}
			r, err := l.Compressed()
			if err != nil {
				return nil, registryError(ctx, full, err)
			}
			return r, nil
		}})
	}
	return out, nil
}

// hasPlatform refuses an index that has no image for a platform.
func hasPlatform(desc *remote.Descriptor, full string, platform v1.Platform) error {
	if !desc.MediaType.IsIndex() {
		return nil
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(desc.Manifest))
	if err != nil {
		return api.Errorf(api.KindInvalid, "image %s: its index is malformed: %w", full, err)
	}
	var have []string
	for _, m := range index.Manifests {
		if m.Platform == nil || m.Platform.OS == platform.OS && m.Platform.Architecture == platform.Architecture {
			return nil
		}
		if len(have) < 20 && m.Platform.OS != "unknown" { // attestations are of no platform
			have = append(have, m.Platform.OS+"/"+m.Platform.Architecture)
		}
	}
	return api.Errorf(api.KindUnsupported, "image %s is not for %s/%s; it is for %.500s", full, platform.OS, platform.Architecture, strings.Join(have, ", "))
}

// registryError classifies what a registry's client reports.
func registryError(ctx context.Context, reference string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var known *api.Error
	if errors.As(err, &known) {
		return api.Errorf(known.Kind, "image %s: %w", reference, err)
	}
	var t *transport.Error
	if errors.As(err, &t) {
		switch t.StatusCode {
		case http.StatusNotFound:
			return api.Errorf(api.KindNotFound, "image %s was not found", reference)
		case http.StatusUnauthorized, http.StatusForbidden:
			return api.Errorf(api.KindDenied, "the registry refuses image %s: it does not exist, or access requires credentials", reference).
				WithHint("log in with docker login as the user of the daemon")
		}
	}
	return api.Errorf(api.KindUnavailable, "image %s: %w", reference, err)
}
