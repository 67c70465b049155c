package http_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestRepoResults(t *testing.T) {
	f := &fakes{}
	c, path := serve(t, f)
	ctx := t.Context()
	type opened func() (io.ReadCloser, error)
	for want, open := range map[string]opened{
		fmt.Sprintln("diff", f.task, 0, ""):              func() (io.ReadCloser, error) { return c.Tasks.Diff(ctx, f.task, 0) },
		fmt.Sprintln("diff", f.task, 3, ""):              func() (io.ReadCloser, error) { return c.Tasks.Diff(ctx, f.task, 3) },
		fmt.Sprintln("diff", f.task, 0, "lib"):           func() (io.ReadCloser, error) { return c.Tasks.DiffOf(ctx, f.task, "lib") },
		fmt.Sprintln("bundle", f.task, ""):               func() (io.ReadCloser, error) { return c.Tasks.Bundle(ctx, f.task) },
		fmt.Sprintln("bundle", f.task, "lib"):            func() (io.ReadCloser, error) { return c.Tasks.BundleOf(ctx, f.task, "lib") },
		fmt.Sprintln("transcript", f.task):               func() (io.ReadCloser, error) { return c.Tasks.Transcript(ctx, f.task) },
		fmt.Sprintln("gate", f.task, 0, api.GateBefore):  func() (io.ReadCloser, error) { return c.Tasks.GateOutput(ctx, f.task, 0, api.GateBefore) },
		fmt.Sprintln("gate", f.task, 11, api.GateMutant): func() (io.ReadCloser, error) { return c.Tasks.GateOutput(ctx, f.task, 11, api.GateMutant) },
	} {
		r, err := open()
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		b, err := io.ReadAll(r)
		r.Close()
		if string(b) != want || err != nil {
			t.Errorf("%q, %v; want %q", b, err, want)
		}
	}
	if got, err := c.Tasks.Deliver(ctx, f.task, api.DeliverTask{MergeRequest: true, Remote: "r", Target: "t"}); err != nil || got.ID != f.task ||
		!reflect.DeepEqual(got.Repo.Delivery, &api.Delivery{Pushed: "r", Target: "t", Created: true}) {
		t.Errorf("a delivery: %+v, %v", got, err)
	}
	if got, err := c.Tasks.Applied(ctx, f.task); err != nil || got.ID != f.task || !got.Repo.Applied {
		t.Errorf("a result that was applied: %+v, %v", got, err)
	}
	if _, err := c.Tasks.GateOutput(ctx, f.task, 1, "../x"); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a gate that is none: %v", err)
	}
	if _, err := c.Tasks.Diff(ctx, "../info", 0); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a path for an id: %v", err)
	}
	hc := unix(path)
	defer hc.CloseIdleConnections()
	for url, want := range map[string]string{
		"diff": "200 text/x-diff", "diff?round=1": "200 text/x-diff", "bundle": "200 application/x-git-bundle", "transcript": "200 application/jsonl",
		"gates/1/gate": "200 application/octet-stream", "gates/0/before": "200 application/octet-stream",
		"diff?round=0": "400", "diff?round=101": "400", "diff?round=x": "400", "diff?round=-1": "400", "diff?round=99999999999999999999": "400",
		"gates/0/gate": "400", "gates/0/mutant": "400", "gates/1/nothing": "400", "gates/x/gate": "400", "gates/-1/before": "400", "gates/1": "404",
		"gates/1/" + strings.Repeat("x", 1000): "400",
	} {
		resp, err := hc.Get("http://daemon/v1/tasks/" + string(f.task) + "/" + url)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got := fmt.Sprint(resp.StatusCode)
		if resp.StatusCode == http.StatusOK {
			got += " " + resp.Header.Get("Content-Type")
		}
		if got != want || resp.StatusCode == http.StatusOK && resp.Header.Get("X-Content-Type-Options") != "nosniff" || len(b) > 500 {
			t.Errorf("%.60s: %s, want %s; %s", url, got, want, b)
		}
	}
}

// TestRepoResultsThatAreNot: what there is none of is an error with its kind.
func TestRepoResultsThatAreNot(t *testing.T) {
	for _, kind := range []api.Kind{api.KindConflict, api.KindNotFound, api.KindUnsupported, api.KindInvalid} {
		f := &fakes{none: kind}
		c, _ := serve(t, f)
		_, diff := c.Tasks.Diff(t.Context(), f.task, 0)
		_, bundle := c.Tasks.Bundle(t.Context(), f.task)
		_, transcript := c.Tasks.Transcript(t.Context(), f.task)
		_, gate := c.Tasks.GateOutput(t.Context(), f.task, 1, api.GateResult)
		_, deliver := c.Tasks.Deliver(t.Context(), f.task, api.DeliverTask{Push: true})
		for _, err := range []error{deliver, diff, bundle, transcript, gate} {
			if api.KindOf(err) != kind || kind == api.KindConflict && api.HintOf(err) != "wait" {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

// TestRepoResultIsCutAloud: a result that cannot be read to its end does not look
// like a whole one.
func TestRepoResultIsCutAloud(t *testing.T) {
	f := &fakes{endless: true}
	c, _ := serve(t, f)
	r, err := c.Tasks.Diff(t.Context(), f.task, 0)
	if err != nil {
		return // cut before anything was sent
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err == nil {
		t.Errorf("%q looks complete", b)
	}
}
