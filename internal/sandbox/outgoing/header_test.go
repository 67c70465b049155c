package outgoing_test

import (
	"context"

	"hortus.dev/api"
)

func (s *slow) Headers(_ context.Context, _ string, rules []api.HeaderRule) ([]api.HeaderRule, error) {
	return rules, nil
}
