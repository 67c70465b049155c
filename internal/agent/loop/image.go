package loop

import (
	"fmt"

	"hortus.dev/internal/agent/model"
)

const (
	// maxImages is the most images of one history, and maxImageBytes the most bytes of all of them.
	maxImages     = 20
	maxImageBytes = 10 << 20
	// imageTokens is what an image is guessed to cost: vendors reduce larger ones.
	imageTokens = 1600
)

// images returns those of a result that the model reads, with what the text adds about the others.
func (l *Loop) images(all []model.Image) (kept []model.Image, note string) {
	if len(all) == 0 {
		return nil, ""
	}
	if !model.ReadsImages(l.model) {
		return nil, fmt.Sprintf("\nThe model %s cannot read images. Inspect the file with shell.", short(l.model.Name()))
	}
	for _, x := range all {
		if l.pictures == maxImages || l.pictureBytes+len(x.Data) > maxImageBytes {
			return kept, fmt.Sprintf("\nThe limit of %d images with %d MiB is reached. The image is not shown.", maxImages, maxImageBytes>>20)
		}
		l.pictures++
		l.pictureBytes += len(x.Data)
		kept = append(kept, x)
	}
	return kept, ""
}

// blind copies messages without their images.
func blind(all []model.Message) []model.Message {
	out := append([]model.Message(nil), all...)
	for i := range out {
		out[i].Images = nil
	}
	return out
}

// unsee takes all images out of a history whose request was refused. It is false if there are none.
func (r *run) unsee() bool {
	found := false
	for i := range r.history {
		if m := &r.history[i]; m.Images != nil {
			m.Images, m.Text, found = nil, m.Text+"\n[image removed: the model's server did not accept the request]", true
		}
	}
	if found {
		r.note(Entry{Kind: KindNotice, Text: "The images were removed from the history: the model's server did not accept the request."})
	}
	return found
}
