package http_test

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// upkeep gives back what it was asked.
type upkeep struct{}

func (upkeep) Configure(_ context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error) {
	if want.LogLevel == "loud" {
		return want, api.Errorf(api.KindInvalid, "there is no level loud").WithHint("info")
	}
	return want, nil
}
func (upkeep) Usage(context.Context) (admin.DiskUsage, error) {
	return admin.DiskUsage{DataDir: "/d", Parts: []admin.DiskPart{{Name: admin.PartLogs, Count: 2}}}, nil
}
func (upkeep) Collect(_ context.Context, req admin.CollectRequest) (admin.Collected, error) {
	out := admin.Collected{DryRun: req.DryRun, Items: []admin.CollectedItem{}}
	if req.OlderThanMS != nil {
		out.Bytes = *req.OlderThanMS
	}
	return out, nil
}

func TestUpkeepCalls(t *testing.T) {
	c, _ := serve(t, &fakes{})
	ctx := t.Context()
	zero, minute := int64(0), int64(60_000)
	if got, err := c.Configure(ctx, admin.DaemonSettings{LogLevel: "debug", IdleMS: &zero}); err != nil || got.LogLevel != "debug" || got.IdleMS == nil || *got.IdleMS != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Configure(ctx, admin.DaemonSettings{LogLevel: "loud"}); api.KindOf(err) != api.KindInvalid || api.HintOf(err) != "info" {
		t.Errorf("%v", err)
	}
	if u, err := c.DiskUsage(ctx); err != nil || u.DataDir != "/d" || len(u.Parts) != 1 || u.Parts[0].Count != 2 {
		t.Errorf("%+v, %v", u, err)
	}
	for _, ms := range []*int64{nil, &zero, &minute} {
		want := int64(0)
		if ms != nil {
			want = *ms
		}
		if got, err := c.Collect(ctx, admin.CollectRequest{DryRun: true, OlderThanMS: ms}); err != nil || !got.DryRun || got.Bytes != want || got.Items == nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
