package app

import "hortus.dev/api"

// Missing adds to the error about what does not exist which command lists what does. Other errors,
// and those that have a hint, stay as they are.
func Missing(err error, list string) error {
	if api.KindOf(err) != api.KindNotFound || api.HintOf(err) != "" {
		return err
	}
	return api.Errorf(api.KindNotFound, "%w", err).WithHint("to list them: %s", list)
}
