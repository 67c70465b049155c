// Package preset has the templates that come with Hortus: requests of builds by name.
//
//	err := preset.Fill(&request) // request.Preset is "browser"
//
// The digests of what ide.Dockerfile downloads are in it: to take another version, replace each version with its digest.
// The package knows nothing of how a template is built, and has nothing to close.
package preset
