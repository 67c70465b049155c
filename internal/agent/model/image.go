package model

// Image is a picture in a message of a tool. Type is "image/png", "image/jpeg", "image/gif" or "image/webp".
type Image struct {
	Type string
	Data []byte
}

// ReadsImages reports whether a model says that it reads images. A model that wraps another one has the method
// Unwrap() Model, one that says it itself ReadsImages() bool; all others read none.
func ReadsImages(m Model) bool {
	for m != nil {
		switch x := m.(type) {
		case interface{ ReadsImages() bool }:
			return x.ReadsImages()
		case interface{ Unwrap() Model }:
			m = x.Unwrap()
		default:
			return false
		}
	}
	return false
}
