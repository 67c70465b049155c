package tool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"

	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

const (
	// maxImage is the largest file that is given to a model as an image, in bytes, and maxSide its longest side, in pixels.
	maxImage = 1536 << 10
	maxSide  = 8000
	// maxImages is the most images that a set gives: each one is kept in the history and in a journal.
	maxImages = 20
)

// picture is an image file, as far as its header tells.
type picture struct {
	kind, mime    string
	width, height int
}

// readPicture reads the header of an image file, and no pixels. ok is false for what is no image of a known kind; the
// file is untrusted.
func readPicture(b []byte) (p picture, ok bool) {
	var c image.Config
	var err error
	r := bytes.NewReader(b)
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		p.kind, p.mime = "PNG", "image/png"
		c, err = png.DecodeConfig(r)
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		p.kind, p.mime = "JPEG", "image/jpeg"
		c, err = jpeg.DecodeConfig(r)
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		p.kind, p.mime = "GIF", "image/gif"
		c, err = gif.DecodeConfig(r)
	case len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		p.kind, p.mime = "WebP", "image/webp"
		c.Width, c.Height = webpSize(b)
	default:
		return p, false
	}
	p.width, p.height = c.Width, c.Height
	return p, err == nil && p.width > 0 && p.height > 0
}

// webpSize reads the size in the first chunk of a WebP file of at least 30 bytes; 0 for an unknown one.
func webpSize(b []byte) (width, height int) {
	switch string(b[12:16]) {
	case "VP8 ": // behind the frame's tag and its start code
		if b[23] == 0x9d && b[24] == 0x01 && b[25] == 0x2a {
			return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
		}
	case "VP8L":
		if b[20] == 0x2f {
			n := binary.LittleEndian.Uint32(b[21:])
			return int(n&0x3fff) + 1, int(n>>14&0x3fff) + 1
		}
	case "VP8X":
		return 1 + int(b[24]) + int(b[25])<<8 + int(b[26])<<16, 1 + int(b[27]) + int(b[28])<<8 + int(b[29])<<16
	}
	return 0, 0
}

// viewImage gives an image to the model, if the file is one.
func viewImage(w where, b []byte) (loop.Result, bool) {
	p, ok := readPicture(b)
	if !ok {
		return loop.Result{}, false
	}
	about := fmt.Sprintf("%s is a %s image of %d x %d pixels, %d bytes.", w.say, p.kind, p.width, p.height, len(b))
	short := fmt.Sprintf("view %s: image, %d x %d", w.say, p.width, p.height)
	switch {
	case len(b) > maxImage:
		return failed(short+", too large", "%s It is too large to view: the maximum is %d bytes. Reduce it with shell.", about, maxImage), true
	case max(p.width, p.height) > maxSide:
		return failed(short+", too large", "%s It is too large to view: the maximum is %d pixels for each side. Reduce it with shell.", about, maxSide), true
	}
	return loop.Result{Text: about, Short: short, Images: []model.Image{{Type: p.mime, Data: b}}}, true
}
