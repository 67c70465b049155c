package tool

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// samples are small images of all kinds, 5 pixels wide and 3 high.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, 5, 3), color.Palette{color.Black, color.White})
	out := map[string][]byte{}
	var b bytes.Buffer
	for kind, write := range map[string]func() error{
		"PNG": func() error { return png.Encode(&b, img) }, "JPEG": func() error { return jpeg.Encode(&b, img, nil) }, "GIF": func() error { return gif.Encode(&b, img, nil) },
	} {
		b.Reset()
		if err := write(); err != nil {
			t.Fatal(err)
		}
		out[kind] = bytes.Clone(b.Bytes())
	}
	out["WebP"] = webp("VP8 ", []byte{0, 0, 0, 0x9d, 0x01, 0x2a, 5, 0, 3, 0})
	out["WebP lossless"] = webp("VP8L", binary.LittleEndian.AppendUint32([]byte{0x2f}, 4|2<<14))
	out["WebP extended"] = webp("VP8X", []byte{0, 0, 0, 0, 4, 0, 0, 2, 0, 0})
	return out
}

func webp(chunk string, payload []byte) []byte {
	b := []byte("RIFF\x00\x00\x00\x00WEBP" + chunk + "\x0a\x00\x00\x00")
	return append(append(b, payload...), make([]byte, 16)...)
}

func TestPicture(t *testing.T) {
	for name, b := range samples(t) {
		p, ok := readPicture(b)
		if kind, _, _ := strings.Cut(name, " "); !ok || p.kind != kind || p.width != 5 || p.height != 3 || p.mime != "image/"+strings.ToLower(kind) {
			t.Errorf("%s: %+v, %v", name, p, ok)
		}
		if _, ok := readPicture(b[:12]); ok {
			t.Errorf("%s: an image of 12 bytes", name)
		}
	}
	for _, b := range [][]byte{nil, []byte("text"), webp("VP8 ", make([]byte, 10)), webp("none", make([]byte, 10)), []byte("\x89PNG\r\n\x1a\n")} {
		if p, ok := readPicture(b); ok {
			t.Errorf("%q is %+v", b, p)
		}
	}
}

func TestViewImage(t *testing.T) {
	at := where{say: "a.png"}
	b := samples(t)["PNG"]
	res, ok := viewImage(at, b)
	if !ok || res.Failed || len(res.Images) != 1 || res.Images[0].Type != "image/png" || !bytes.Equal(res.Images[0].Data, b) || !strings.HasPrefix(res.Text, "a.png is a PNG image of 5 x 3 pixels, ") {
		t.Errorf("%v, %+v", ok, res)
	}
	side := func(n uint32) []byte { // the side is in the header, which no pixel contradicts
		c := bytes.Clone(webp("VP8X", []byte{0, 0, 0, 0, 0, 0, 0, 2, 0, 0}))
		c[24], c[25], c[26] = byte(n-1), byte((n-1)>>8), byte((n-1)>>16)
		return c
	}
	if res, ok := viewImage(at, side(maxSide)); !ok || res.Failed {
		t.Errorf("%v, %+v", ok, res)
	}
	if res, ok := viewImage(at, side(maxSide+1)); !ok || !res.Failed || res.Images != nil || !strings.Contains(res.Text, "maximum is 8000 pixels") {
		t.Errorf("%v, %+v", ok, res)
	}
	if res, ok := viewImage(at, append(bytes.Clone(b), make([]byte, maxImage-len(b))...)); !ok || res.Failed {
		t.Errorf("%v, %+v", ok, res)
	}
	if res, ok := viewImage(at, append(bytes.Clone(b), make([]byte, maxImage)...)); !ok || !res.Failed || res.Images != nil {
		t.Errorf("%v, %+v", ok, res)
	}
	if _, ok := viewImage(at, []byte("text")); ok {
		t.Error("text is an image")
	}
}

// Whatever the bytes are, the header is read without a panic, and what is accepted has a size.
func FuzzPicture(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := readPicture(b); ok && (p.width < 1 || p.height < 1 || p.mime == "") {
			t.Errorf("%+v", p)
		}
	})
}
