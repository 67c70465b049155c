package jail

import "slices"

// cleanup undoes what was done so far if a later step fails.
type cleanup []func()

func (c *cleanup) add(undo ...func()) { *c = append(*c, undo...) }

// run undoes everything, in reverse order. A second run does nothing.
func (c *cleanup) run() {
	for _, undo := range slices.Backward(*c) {
		undo()
	}
	*c = nil
}
