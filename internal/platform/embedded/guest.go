//go:build embedguest

package embedded

import _ "embed"

//go:embed guest/hortus-guest
var guest []byte

// Guest returns the embedded guest's executable; empty when there is none.
func Guest() []byte { return guest }
