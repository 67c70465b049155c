package docker

import (
	"context"
	"errors"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"hortus.dev/api"
)

// maxMessage is the maximum length of an engine's message that is shown to people, in bytes.
const maxMessage = 500

// engineError is the error of a call to the engine. An error of this program keeps its kind.
func engineError(what string, err error) *api.Error {
	var own *api.Error
	if errors.As(err, &own) {
		return api.Errorf(own.Kind, "%s: %w", what, err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return api.Errorf(api.KindOf(err), "Docker: %s: %w", what, err)
	}
	kind := api.KindInternal
	switch {
	case client.IsErrConnectionFailed(err) || cerrdefs.IsUnavailable(err):
		kind = api.KindUnavailable
	}
	text := err.Error()
	if strings.Contains(text, "no space left on device") {
		kind = api.KindExhausted
	}
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return api.Errorf(kind, "Docker: %s: %s", what, text)
}
