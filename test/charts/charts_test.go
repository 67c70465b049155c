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
		t.Fatal(err)
	}
	files, err := engine.Render(c, v)
	if err != nil {
		return nil, err
	}
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
		{"mode": "other"}, {"autoscaling": map[string]any{"kind": "other"}}, {"replicas": 2}, {"autoscaling": map[string]any{"kind": "hpa"}},
		{"replicas": 2, "fleet": map[string]any{"keySecret": "key"}},
	} {
		if _, err := render(t, wrong); err == nil {
			t.Errorf("%v is accepted", wrong)
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
