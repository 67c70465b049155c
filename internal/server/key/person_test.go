package key

import (
	"reflect"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestPersonal changes what a person may do, and ends it.
func TestPersonal(t *testing.T) {
	k, _ := open(t)
	ctx := t.Context()
	ada := api.Person{Issuer: "https://id.example.org", Subject: "1", Email: "ada@example.org"}
	get := func(p api.Person, account string, role api.Role) api.Key {
		t.Helper()
		got, err := k.Personal(ctx, p, account, role)
		if err != nil || got.Account != account || got.Role != role || got.Person == nil || *got.Person != p {
			t.Fatalf("%+v, %v", got, err)
		}
		return got
	}
	works := func(k2 api.Key) bool {
		_, err := k.Get(ctx, k2.ID)
		return err == nil
	}
	one := get(ada, "team", api.RoleUser)
	if again := get(ada, "team", api.RoleUser); again.ID != one.ID {
		t.Error("a second key for the same")
	}
	if !reflect.DeepEqual(one.Ceilings, api.DefaultCeilings()) || one.Name != "ada@example.org" {
		t.Errorf("%+v", one)
	}
	// Others, and keys with the same name, are not this person's.
	eve := get(api.Person{Issuer: ada.Issuer, Subject: "2", Email: ada.Email}, "team", api.RoleUser)
	foreign := get(api.Person{Issuer: "https://other.example", Subject: "1", Email: ada.Email}, "team", api.RoleUser)
	named := create(t, k, api.CreateKey{Name: ada.Email, Account: "team"})
	admin := get(ada, "default", api.RoleAdmin)
	if works(one) || !works(admin) || !works(eve) || !works(foreign) || !works(named.Key) {
		t.Error("another role leaves the first key, or takes one of others")
	}
	renamed := ada
	renamed.Email = strings.Repeat("é", 200) + "@example.org"
	next := get(renamed, "default", api.RoleAdmin)
	if works(admin) || len([]rune(next.Name)) != maxName {
		t.Error("another address:", next.Name)
	}
	if local, err := k.Local(ctx); err != nil || local.ID == next.ID {
		t.Error(local, err)
	}
	if err := k.Leave(ctx, ada); err != nil || works(next) || !works(eve) || !works(foreign) || !works(named.Key) {
		t.Error("who left has a key, or others have none:", err)
	}
	if back := get(ada, "team", api.RoleUser); back.ID == one.ID {
		t.Error("a revoked key works again")
	}
}

// TestFirstAfterPeople makes the first key although people have signed in.
func TestFirstAfterPeople(t *testing.T) {
	k, _ := open(t)
	if _, err := k.Personal(t.Context(), api.Person{Issuer: "i", Subject: "s", Email: "a@b"}, "team", api.RoleUser); err != nil {
		t.Fatal(err)
	}
	if _, made, err := k.First(t.Context(), api.CreateKey{Account: "default", Role: api.RoleAdmin}); !made || err != nil {
		t.Error(made, err)
	}
}
