//go:build embedguest

package embedded

import _ "embed"

//go:embed guest/hortus-guest
var guest []byte

// Guest gives the embedded guest's executable; empty when there is none.
func Guest() []byte { return guest }
