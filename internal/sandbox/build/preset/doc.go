// Package preset has the templates that come with Hortus: requests of builds by name.
//
//	err := preset.Fill(&request) // request.Preset is "browser"
//
// It knows nothing of how a template is built, and has nothing to close.
package preset
