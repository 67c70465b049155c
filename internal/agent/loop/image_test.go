package loop_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
)

// pictures are tools of which view gives an image of so many bytes.
func pictures(size int) []loop.Tool {
	view := tool{spec("view", `"path":{"type":"string"}`, "path"), func(_ context.Context, in json.RawMessage) (loop.Result, error) {
		return loop.Result{Text: "an image", Images: []model.Image{{Type: "image/png", Data: []byte(strings.Repeat("P", size))}}}, nil
	}}
	return append([]loop.Tool{view}, (&crowd{}).tools()[1:]...)
}

// Images reach the model on every API, behind the result of their call, and the beginning of a request stays the same.
func TestImages(t *testing.T) {
	each(t, `
-- look --
call: view
also: shell {"command": "make"}

{"path": "a.png"}
-- again --
call: shell

{"command": "test"}
-- end --
call: finish

{"summary": "ok"}
`, func(t *testing.T, m model.Model, got *requests) {
		w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools = pictures(60) })
		if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished {
			t.Fatalf("%+v", rep)
		}
		w.entries(t)
		data := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("P", 60)))
		for i, body := range got.all {
			if n := strings.Count(string(body), data); n != min(i, 1) {
				t.Errorf("request %d has the image %d times: %s", i+1, n, body)
			}
		}
		if strings.Contains(w.script.String(), data) {
			t.Error("the transcript has the image")
		}
		if strings.Contains(m.Name(), "openai") {
			before, after := parts(t, got.all[1]), parts(t, got.all[2])
			if n := shared([][]block{before}, after); n != len(before) {
				t.Errorf("%d of %d parts are the same", n, len(before))
			}
			return
		}
		c := cache{}
		c.ask(t, blocks(t, got.all[1]))
		if all := blocks(t, got.all[1]); c.ask(t, blocks(t, got.all[2])) != len(all) {
			t.Error("the image is not in the cache")
		}
	})
}

// seeing is a model that reads images.
type seeing struct{ *answers }

func (seeing) ReadsImages() bool { return true }

// refusing is a model whose server takes no image.
type refusing struct{ seeing }

func (r refusing) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if imagesOf(req.Messages) > 0 {
		r.asked = append(r.asked, req)
		return model.Response{}, api.Errorf(api.KindInvalid, "could not process image")
	}
	return r.answers.Generate(ctx, req, deltas)
}

func imagesOf(all []model.Message) (n int) {
	for _, m := range all {
		n += len(m.Images)
	}
	return n
}

// A model that reads no images gets a text about it, and so does one that an escalation moves to; images are bounded; and
// one that a server refuses is taken out, without an end of the work.
func TestImageBounds(t *testing.T) {
	views := func(n int) (all []model.Message) {
		for i := range n {
			all = append(all, ask(fmt.Sprint("view n", i)))
		}
		return all
	}
	run := func(m model.Model, size int) (*work, loop.Report) {
		w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools = pictures(size) })
		rep := w.Run(t.Context(), "Go.")
		w.entries(t)
		return w, rep
	}
	blind := &answers{all: views(1)}
	if _, rep := run(blind, 60); rep.Stop != api.StopFinished || imagesOf(blind.asked[1].Messages) != 0 || !strings.Contains(blind.asked[1].Messages[2].Text, "The model answers cannot read images") {
		t.Errorf("%+v", blind.asked[1].Messages)
	}
	many := seeing{&answers{all: views(22)}}
	if _, rep := run(many, 60); rep.Stop != api.StopFinished || imagesOf(many.asked[22].Messages) != 20 || !strings.Contains(many.asked[22].Messages[42].Text, "limit of 20 images") {
		t.Errorf("%d images", imagesOf(many.asked[22].Messages))
	}
	large := seeing{&answers{all: views(4)}}
	if run(large, 3<<20); imagesOf(large.asked[4].Messages) != 3 {
		t.Errorf("%d images", imagesOf(large.asked[4].Messages))
	}
	broken := refusing{seeing{&answers{all: views(1)}}}
	w, rep := run(broken, 60)
	if rep.Stop != api.StopFinished || len(broken.asked) != 3 || imagesOf(broken.asked[1].Messages) != 1 || !strings.Contains(w.History()[2].Text, "image removed") {
		t.Errorf("%+v", rep)
	}
	// The control: another request that is refused ends the work.
	if _, rep := run(&priced{name: "m", err: api.Errorf(api.KindInvalid, "no")}, 60); rep.Stop != api.StopModel {
		t.Errorf("%+v", rep)
	}
	moved := &answers{}
	w = newWork(seeing{&answers{all: []model.Message{ask("view a"), {Calls: []model.Call{{ID: "1", Name: "none"}}}, {Calls: []model.Call{{ID: "2", Name: "none"}}}, {Calls: []model.Call{{ID: "3", Name: "none"}}}}}}, func(cfg *loop.Config, _ *bench) {
		cfg.Tools, cfg.Large = pictures(60), named{moved, "large"}
	})
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || len(moved.asked) != 1 || imagesOf(moved.asked[0].Messages) != 0 || imagesOf(w.History()) != 1 {
		t.Errorf("%+v after %d", rep, len(moved.asked))
	}
}

// A history that is shortened loses the images of what was cut.
func TestImagesCompact(t *testing.T) {
	var all []model.Message
	for i := range 12 {
		all = append(all, ask(fmt.Sprint("view n", i)))
	}
	m := seeing{&answers{all: all}}
	w := newWork(m, func(cfg *loop.Config, _ *bench) { cfg.Tools, cfg.Window = pictures(60), 20_000 })
	if rep := w.Run(t.Context(), "Go."); rep.Stop != api.StopFinished || len(of[api.CompactEvent](w.facts)) == 0 {
		t.Fatalf("%+v", rep)
	}
	if n := imagesOf(w.History()); n == 0 || n > 8 || !strings.Contains(fmt.Sprint(w.History()), "image removed to save context") {
		t.Errorf("%d images", n)
	}
}
