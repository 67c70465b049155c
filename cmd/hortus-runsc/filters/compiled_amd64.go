package filters

import _ "embed"

//go:embed compiled_amd64.bin
var compiled []byte
