//go:build embedrunsc

package embedded

import _ "embed"

//go:embed guest/hortus-runsc
var runsc []byte

// Runsc returns the embedded gVisor's executable; empty when there is none.
func Runsc() []byte { return runsc }
