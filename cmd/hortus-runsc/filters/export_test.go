package filters

// Put is Register without the question of the version: a test binary does not say
// which modules it holds.
var Put = put
