package access

import (
	"context"
	"reflect"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
)

// TestNobodyMayNothing calls every method of every guard, and of what creates sandboxes for tasks, for nobody, and for callers
// that make no sense. Behind the guards stands nothing: what gets through panics. A
// method that is added later is called too.
func TestNobodyMayNothing(t *testing.T) {
	sandboxes := NewSandboxes(SandboxesConfig{Quota: quota.New(quota.Config{})})
	tasks := NewTasks(nil, nil, quota.NewRates(quota.RatesConfig{}))
	guards := []any{quota.New(quota.Config{}), sandboxes, tasks, NewRoles(nil), NewEvents(nil, sandboxes, tasks, NewSessions(nil, tasks), NewPlans(nil, tasks)), NewSessions(nil, tasks), NewPlans(nil, tasks), NewSystem(nil, sandboxes), NewKeyAdmin(nil), NewEgress(EgressConfig{Sandboxes: sandboxes}), NewWorkspaces(nil, quota.NewRates(quota.RatesConfig{})), NewImages(nil), NewSecrets(nil), NewLessons(nil), NewDocuments(nil)}
	for name, p := range map[string]api.Principal{
		"nobody": {}, "a user of no account": {Role: api.RoleUser}, "an account without a role": {Account: "a"},
		"an unknown role": {Account: "a", Role: "owner"}, "a key alone": {Key: api.NewKeyID()},
	} {
		n := 0
		for _, g := range guards {
			v := reflect.ValueOf(g)
			for i := range v.NumMethod() {
				method := v.Type().Method(i)
				if _, ok := g.(*System); ok && method.Name == "Ready" {
					continue // for load balancers, which have no key
				}
				n++
				if err := call(t, v.Method(i), api.WithPrincipal(t.Context(), p)); api.KindOf(err) != api.KindUnauthenticated {
					t.Errorf("%T.%s for %s: %v", g, method.Name, name, err)
				}
			}
		}
		if n < 40 {
			t.Errorf("only %d methods", n)
		}
	}
}

// call calls a method with a context and zero values, and gives its error: the last
// result, or what its sequence begins with.
func call(t *testing.T, f reflect.Value, ctx context.Context) (err error) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			err = api.Errorf(api.KindInternal, "it got through: %v", v)
		}
	}()
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < f.Type().NumIn(); i++ {
		args = append(args, reflect.Zero(f.Type().In(i)))
	}
	out := f.Call(args)
	last := out[len(out)-1]
	if last.Kind() == reflect.Func {
		for _, v := range last.Seq2() {
			last = v
			break
		}
	}
	err, _ = last.Interface().(error)
	return err
}
