package charts

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the manifests")

const (
	chartDir  = "../../packaging/kubernetes/chart"
	manifests = "../../packaging/kubernetes/manifests/hortus.yaml"
)

// render returns the objects of the chart as texts.
func render(t *testing.T, values map[string]any) ([]string, error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "hortus", Namespace: "hortus", IsInstall: true}, nil)
	if err != nil {
		return nil, err // of the schema
	}
	files, err := engine.Render(c, v)
	if err != nil {
		return nil, err
	}
	delete(files, "hortus/templates/NOTES.txt")
	var out []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, text := range strings.Split(files[name], "\n---\n") {
			var any map[string]any
			if err := yaml.Unmarshal([]byte(text), &any); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if len(any) > 0 {
				out = append(out, strings.TrimSpace(text)+"\n")
			}
		}
	}
	return out, nil
}

// kinds are the types of the objects. Those of nil are defined by others, and have a schema only in a cluster.
var kinds = map[string]func() any{
	"v1 Service":                                    func() any { return new(corev1.Service) },
	"v1 ServiceAccount":                             func() any { return new(corev1.ServiceAccount) },
	"v1 ConfigMap":                                  func() any { return new(corev1.ConfigMap) },
	"apps/v1 StatefulSet":                           func() any { return new(appsv1.StatefulSet) },
	"networking.k8s.io/v1 NetworkPolicy":            func() any { return new(networkingv1.NetworkPolicy) },
	"policy/v1 PodDisruptionBudget":                 func() any { return new(policyv1.PodDisruptionBudget) },
	"rbac.authorization.k8s.io/v1 Role":             func() any { return new(rbacv1.Role) },
	"rbac.authorization.k8s.io/v1 RoleBinding":      func() any { return new(rbacv1.RoleBinding) },
	"autoscaling/v2 HorizontalPodAutoscaler":        func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"keda.sh/v1alpha1 ScaledObject":                 nil,
	"monitoring.coreos.com/v1 ServiceMonitor":       nil,
	"kustomize.config.k8s.io/v1beta1 Kustomization": nil,
}

// check decodes an object strictly, and returns its kind and name.
func check(text string) (string, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return "", err
	}
	kind := head.APIVersion + " " + head.Kind
	typ, ok := kinds[kind]
	if !ok {
		return kind, fmt.Errorf("the kind %s is not known", kind)
	}
	if typ != nil {
		if err := yaml.UnmarshalStrict([]byte(text), typ()); err != nil {
			return kind, fmt.Errorf("%s %s: %w", kind, head.Metadata.Name, err)
		}
	}
	return kind, nil
}

func TestChart(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		kinds  string // that there must be, besides those of the default
	}{
		"default": {nil, "v1 Service, apps/v1 StatefulSet, rbac.authorization.k8s.io/v1 Role"},
		"nested":  {map[string]any{"mode": "nested"}, "apps/v1 StatefulSet"},
		"everything": {map[string]any{
			"replicas": 3, "config": "[daemon]\npool = 0\n",
			"env":          []any{map[string]any{"name": "AWS_REGION", "value": "x"}},
			"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}},
			"imagePullSecrets": []any{map[string]any{"name": "s"}},
			"postgres":         map[string]any{"trial": map[string]any{"enabled": true}},
			"fleet":            map[string]any{"keySecret": "key"},
			"networkPolicy":    map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}},
			"monitoring":       map[string]any{"serviceMonitor": true, "dashboard": true},
			"autoscaling":      map[string]any{"kind": "hpa"},
		}, "autoscaling/v2 HorizontalPodAutoscaler, monitoring.coreos.com/v1 ServiceMonitor"},
		"keda": {map[string]any{"autoscaling": map[string]any{"kind": "keda"}, "fleet": map[string]any{"keySecret": "key"}, "postgres": map[string]any{"url": "postgres://h@d/h", "passwordSecret": "s"}}, "keda.sh/v1alpha1 ScaledObject"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, c.values)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, text := range objects {
				kind, err := check(text)
				if err != nil {
					t.Errorf("%v\n%s", err, text)
				}
				got = append(got, kind)
				// Only the nested mode may have privileges.
				if name != "nested" && (strings.Contains(text, "privileged: true") || kind == "apps/v1 StatefulSet" && !strings.Contains(text, "allowPrivilegeEscalation: false")) {
					t.Errorf("%s has privileges:\n%s", kind, text)
				}
			}
			for _, kind := range strings.Split(c.kinds, ", ") {
				if !slices.Contains(got, kind) {
					t.Errorf("no %s in %q", kind, got)
				}
			}
		})
	}
	for _, wrong := range []map[string]any{
		{"replicas": 2}, {"autoscaling": map[string]any{"kind": "hpa"}}, {"replicas": 2, "fleet": map[string]any{"keySecret": "key"}},
	} {
		if _, err := render(t, wrong); err == nil || !strings.Contains(err.Error(), "several nodes need") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// set is what helm makes of --set.
func set(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := strvals.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchema: a value that the chart does not have, or cannot use, is refused, and the message names it.
func TestSchema(t *testing.T) {
	for text, want := range map[string]string{
		"imagee=x": "imagee", "replicaCount=3": "replicaCount", "pods.cpuOverCommit=4": "cpuOverCommit",
		"replicas=abc": "/replicas", "replicas=1.5": "/replicas", "replicas=-1": "/replicas", "drainSeconds=60s": "/drainSeconds", "image=": "/image",
		"pods.guestAddress=podip": "/pods/guestAddress", "pods.namespace=A_b": "/pods/namespace", "pods.internet=yes": "/pods/internet",
		"pods.maxSandboxes=0": "/pods/maxSandboxes", "pods.cpuOvercommit=0.5": "/pods/cpuOvercommit",
		"storage.size=50gigs": "/storage/size", "postgres.trial.size=5GB": "/postgres/trial/size", "postgres.url=db.example.org": "/postgres/url",
		"mode=other": "/mode", "autoscaling.kind=hpaa": "/autoscaling/kind", "service.type=External": "/service/type", "service.port=70700": "/service/port",
		"podDisruptionBudget.maxUnavailable=half": "/podDisruptionBudget/maxUnavailable", "env[0].value=x": "/env/0",
	} {
		if _, err := render(t, set(t, text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "several nodes") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"pods.guestAddress=podIP", "pods.cpuOvercommit=2.5", "storage.size=1.5Ti", "storage.size=50000000000", "podDisruptionBudget.maxUnavailable=50%", "podDisruptionBudget.maxUnavailable=0",
		"service.type=LoadBalancer", "replicas=0", "global.x=y", "env[0].name=X,env[0].value=x",
	} {
		objects, err := render(t, set(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for _, o := range objects {
			if _, err := check(o); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// keys returns the keys of values, or of a schema, by their paths. Those below a key of which the schema has no properties are free.
func keys(at string, values, schema map[string]any) (have, known []string) {
	properties, _ := schema["properties"].(map[string]any)
	for name, sub := range properties {
		known = append(known, at+name)
		v, _ := values[name].(map[string]any)
		s, _ := sub.(map[string]any)
		if s["properties"] != nil {
			h, k := keys(at+name+".", v, s)
			have, known = append(have, h...), append(known, k...)
		}
	}
	for name := range values {
		have = append(have, at+name)
	}
	return have, known
}

// TestSchemaHasValues: the schema has each key of values.yaml and no other one, closes each object that it describes, and the defaults are
// valid.
func TestSchemaHasValues(t *testing.T) {
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := yaml.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	have, known := keys("", c.Values, schema)
	have = append(have, "global") // of helm
	slices.Sort(have)
	slices.Sort(known)
	if !slices.Equal(have, known) {
		t.Errorf("values.yaml has\n%q, the schema\n%q", have, known)
	}
	var closed func(at string, s map[string]any)
	closed = func(at string, s map[string]any) {
		properties, ok := s["properties"].(map[string]any)
		if ok && s["additionalProperties"] != false {
			t.Errorf("%s accepts keys that it does not have", at)
		}
		for name, sub := range properties {
			closed(at+"."+name, sub.(map[string]any))
		}
	}
	closed("values", schema)
	if err := chartutil.ValidateAgainstSchema(c, c.Values); err != nil {
		t.Error(err)
	}
}

// TestNumbers: numbers of a file of values are floating-point numbers, of which large ones would be rendered with an exponent.
func TestNumbers(t *testing.T) {
	objects, err := render(t, map[string]any{
		"pods": map[string]any{"maxSandboxes": 1e6, "cpuOvercommit": 4.0}, "drainSeconds": 2e6, "replicas": 1.0, "storage": map[string]any{"size": 5e10},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(objects, "---\n")
	for _, want := range []string{
		`{name: HORTUS_MAX_SANDBOXES, value: "1000000"}`, `{name: HORTUS_KUBERNETES_CPU_OVERCOMMIT, value: "4"}`, `{name: HORTUS_DRAIN, value: "2000000s"}`,
		"terminationGracePeriodSeconds: 2000060\n", "replicas: 1\n", "{storage: 50000000000}",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s", want)
		}
	}
	objects, err = render(t, map[string]any{
		"autoscaling": map[string]any{"kind": "hpa", "minReplicas": 1.0, "maxReplicas": 2.0, "sandboxesPerNode": 3e6, "scaleDownSeconds": 4e6},
		"fleet":       map[string]any{"keySecret": "key"}, "postgres": map[string]any{"url": "postgres://h@d/h"},
	})
	if err != nil {
		t.Fatal(err)
	}
	all = strings.Join(objects, "---\n")
	for _, want := range []string{`averageValue: "3000000"`, "stabilizationWindowSeconds: 4000000,"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestOvercommit: the variable is there only if it is not the default, so that one in env is not a second one.
func TestOvercommit(t *testing.T) {
	for text, want := range map[string]int{"pods.cpuOvercommit=1": 0, "pods.cpuOvercommit=4": 1, "pods.cpuOvercommit=1.5": 1, "env[0].name=HORTUS_KUBERNETES_CPU_OVERCOMMIT,env[0].value=4": 1} {
		objects, err := render(t, set(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(strings.Join(objects, ""), "HORTUS_KUBERNETES_CPU_OVERCOMMIT"); got != want {
			t.Errorf("%s: %d times, want %d", text, got, want)
		}
	}
}

// TestNotes: what is printed after an install has the commands for this release.
func TestNotes(t *testing.T) {
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fleet := range []bool{false, true} {
		values := map[string]any{"service": map[string]any{"port": 80.0}}
		if fleet {
			values["replicas"], values["fleet"], values["postgres"] = 2.0, map[string]any{"keySecret": "key"}, map[string]any{"url": "postgres://h@d/h"}
		}
		v, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "mine", Namespace: "there", IsInstall: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.Render(c, v)
		if err != nil {
			t.Fatal(err)
		}
		notes := files["hortus/templates/NOTES.txt"]
		for _, want := range []string{"kubectl -n there exec mine-0 -- hortus key create --role admin\n", "kubectl -n there port-forward service/mine 7070:80\n", "kubectl -n there rollout status statefulset/mine\n"} {
			if !strings.Contains(notes, want) {
				t.Errorf("no %q in:\n%s", want, notes)
			}
		}
		if strings.Contains(notes, "hortus fleet init") != fleet {
			t.Errorf("a fleet %v:\n%s", fleet, notes)
		}
	}
}

// A wrong field is found: this is the control of TestChart.
func TestWrongFields(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Service\nspec: {port: [{port: 1}]}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: many}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {template: {spec: {containers: [{name: a, readynessProbe: {}}]}}}\n",
		"apiVersion: v1\nkind: Nothing\n",
	} {
		if _, err := check(text); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}

// The manifests are those of the chart with its default values.
func TestManifests(t *testing.T) {
	objects, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Written by: go -C test/charts test ./... -update\n" + strings.Join(objects, "---\n")
	if *update {
		if err := os.WriteFile(manifests, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the chart renders: go -C test/charts test ./... -update", manifests)
	}
}
