package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"hortus.dev/api"
)

// descriptor refers to a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

// manifest is a manifest or an index.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// blob reads a document by its digest and verifies it.
func blob(f files, digest string) ([]byte, error) {
	if !digestForm.MatchString(digest) {
		return nil, api.Errorf(api.KindInvalid, "the digest %.80q is malformed", digest)
	}
	b, err := document(f, "blobs/sha256/"+strings.TrimPrefix(digest, "sha256:"))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return nil, api.Errorf(api.KindInvalid, "the content of blob %s has another digest", digest)
	}
	return b, nil
}

// readIndex finds the image of the platform in an index.
func readIndex(f files, b []byte, architecture string, depth int) (*Image, error) {
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, api.Errorf(api.KindInvalid, "the index is malformed: %w", err)
	}
	if depth == 0 {
		return nil, api.Errorf(api.KindInvalid, "the indexes are nested too deeply")
	}
	var found []descriptor
	for _, d := range m.Manifests {
		if p := d.Platform; p == nil || p.Architecture == "" || p.OS == "linux" && p.Architecture == architecture {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return nil, api.Errorf(api.KindUnsupported, "the index has no image for linux/%s", architecture)
	}
	if len(found) > 1 {
		return nil, api.Errorf(api.KindInvalid, "the layout has %d images for linux/%s; it must have one", len(found), architecture)
	}
	d := found[0]
	raw, err := blob(f, d.Digest)
	if err != nil {
		return nil, err
	}
	var inner manifest
	if err := json.Unmarshal(raw, &inner); err != nil {
		return nil, api.Errorf(api.KindInvalid, "the manifest is malformed: %w", err)
	}
	if len(inner.Manifests) > 0 {
		return readIndex(f, raw, architecture, depth-1)
	}
	cfg, err := blob(f, inner.Config.Digest)
	if err != nil {
		return nil, err
	}
	c, err := parseConfiguration(cfg, architecture, len(inner.Layers))
	if err != nil {
		return nil, err
	}
	out := &Image{Digest: d.Digest}
	out.apply(c)
	for i, l := range inner.Layers {
		if !digestForm.MatchString(l.Digest) {
			return nil, api.Errorf(api.KindInvalid, "the digest %.80q is malformed", l.Digest)
		}
		layer, err := fileLayer(f, "blobs/sha256/"+strings.TrimPrefix(l.Digest, "sha256:"), c.RootFS.DiffIDs[i])
		if err != nil {
			return nil, err
		}
		out.Layers = append(out.Layers, layer)
	}
	return out, nil
}
