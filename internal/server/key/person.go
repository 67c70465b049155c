package key

import (
	"context"

	"hortus.dev/api"
)

// Personal returns the key of a person with an account and a role, and creates it if there is none that works. Nobody knows its secret.
// It revokes the other keys of the person: one had another account, another role, or another e-mail address.
func (k *Keys) Personal(ctx context.Context, p api.Person, account string, role api.Role) (api.Key, error) {
	var keep api.Key
	for row, err := range k.working(ctx) {
		switch {
		case err != nil:
			return api.Key{}, err
		case row.Person == nil || row.Person.Issuer != p.Issuer || row.Person.Subject != p.Subject:
		case keep.ID == "" && row.Account == account && row.Role == role && row.Person.Email == p.Email:
			keep = row
		default:
			if _, err := k.Revoke(ctx, row.ID); err != nil {
				return api.Key{}, err
			}
		}
	}
	if keep.ID != "" {
		return keep, nil
	}
	made, err := k.create(ctx, api.CreateKey{Name: personalName(p), Account: account, Role: role}, &p)
	return made.Key, err
}

// Leave revokes all keys of a person.
func (k *Keys) Leave(ctx context.Context, p api.Person) error {
	for row, err := range k.working(ctx) {
		if err == nil && row.Person != nil && row.Person.Issuer == p.Issuer && row.Person.Subject == p.Subject {
			_, err = k.Revoke(ctx, row.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// personalName is the name of the key of a person.
func personalName(p api.Person) string {
	name := []rune(p.Email)
	for i, r := range name {
		if r < '!' || r > '~' {
			name[i] = '?'
		}
	}
	return string(name[:min(len(name), maxName)])
}
