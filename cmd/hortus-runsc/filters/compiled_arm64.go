package filters

import _ "embed"

//go:embed compiled_arm64.bin
var compiled []byte
