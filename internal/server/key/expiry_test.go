package key

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestExpiry: a key works until its end. Only who has the whole key learns that it has expired.
func TestExpiry(t *testing.T) {
	k, _ := open(t)
	now := time.Now()
	k.cfg.Now = func() time.Time { return now }
	short := create(t, k, api.CreateKey{ExpiresInMS: time.Hour.Milliseconds()})
	forever := create(t, k, api.CreateKey{})
	if !short.ExpiresAt.Equal(short.CreatedAt.Add(time.Hour)) || !forever.ExpiresAt.IsZero() {
		t.Fatalf("ends at %v and %v", short.ExpiresAt, forever.ExpiresAt)
	}
	now = short.ExpiresAt.Add(-time.Microsecond)
	if got, err := k.Verify(t.Context(), short.Secret); err != nil || !got.ExpiresAt.Equal(short.ExpiresAt) {
		t.Errorf("before its end: %+v, %v", got, err)
	}
	now = short.ExpiresAt
	_, err := k.Verify(t.Context(), short.Secret)
	if api.KindOf(err) != api.KindUnauthenticated || !strings.Contains(err.Error(), "expired") || !strings.Contains(err.Error(), string(short.ID)) || !strings.Contains(api.HintOf(err), "--expires") {
		t.Errorf("at its end: %v (%s)", err, api.HintOf(err))
	}
	if _, err := k.Get(t.Context(), short.ID); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("by its ID: %v", err)
	}
	// Guesses, also of a key that begins like the expired one, learn nothing.
	last := "0"
	if strings.HasSuffix(short.Secret, last) {
		last = "1"
	}
	for _, guess := range []string{short.Secret[:len(short.Secret)-1] + last, short.Secret[:8], string(short.ID), "e2b_" + strings.Repeat("0", 40)} {
		if _, err := k.Verify(t.Context(), guess); err == nil || err.Error() != unknown().Error() {
			t.Errorf("the guess %q: %v", guess, err)
		}
	}
	// It is listed until it is revoked, and then it is unknown like any other.
	if all, _, err := k.Page(t.Context(), false, api.PageRequest{}); err != nil || len(all) != 2 {
		t.Errorf("listed: %+v, %v", all, err)
	}
	if _, err := k.Revoke(t.Context(), short.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Verify(t.Context(), short.Secret); err == nil || err.Error() != unknown().Error() {
		t.Errorf("expired and revoked: %v", err)
	}
	now = now.Add(100 * 365 * 24 * time.Hour)
	if _, err := k.Verify(t.Context(), forever.Secret); err != nil {
		t.Errorf("a key without an end: %v", err)
	}
	for _, ms := range []int64{-1, 1, api.MinKeyLife.Milliseconds() - 1, api.MaxKeyLife.Milliseconds() + 1} {
		if _, err := k.Create(t.Context(), api.CreateKey{Account: "a", ExpiresInMS: ms}); api.KindOf(err) != api.KindInvalid {
			t.Errorf("a life of %d ms: %v", ms, err)
		}
	}
}

// TestKeyOfAnExpiringKey: a key that a key creates does not outlive it. The controls are a key that ends earlier, and a creator without an end.
func TestKeyOfAnExpiringKey(t *testing.T) {
	k, _ := open(t)
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	ctx := api.WithPrincipal(t.Context(), api.Principal{Role: api.RoleAdmin, Key: api.NewKeyID(), ExpiresAt: end})
	for life, want := range map[time.Duration]bool{0: true, time.Minute: true, 2 * time.Hour: false} {
		got, err := k.Create(ctx, api.CreateKey{Account: "a", ExpiresInMS: life.Milliseconds()})
		switch {
		case !want && (api.KindOf(err) != api.KindDenied || !strings.Contains(err.Error(), "after the one that creates it")):
			t.Errorf("%s: %v", life, err)
		case want && (err != nil || got.ExpiresAt.IsZero() || got.ExpiresAt.After(end) || life == 0 && !got.ExpiresAt.Equal(end)):
			t.Errorf("%s: ends at %v, %v", life, got.ExpiresAt, err)
		}
	}
	if got, err := k.Create(t.Context(), api.CreateKey{Account: "a"}); err != nil || !got.ExpiresAt.IsZero() {
		t.Errorf("ends at %v, %v", got.ExpiresAt, err)
	}
}
