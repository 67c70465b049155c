package kubernetes

import (
	"fmt"
	"net/http"
	"strings"

	"hortus.dev/api"
)

// refusals are what an API server answers with, the most specific first. %s in a hint is the namespace.
var refusals = []struct {
	status int
	has    string // in the message
	kind   api.Kind
	hint   string
}{
	{http.StatusForbidden, "exceeded quota", api.KindExhausted, "end other pods of namespace %s, wait until they end, or raise its ResourceQuota"},
	{http.StatusForbidden, "failed quota", api.KindUnisolated, "the ResourceQuota of namespace %s requires what pods of sandboxes do not have: change it"},
	{http.StatusForbidden, "usage per ", api.KindInvalid, "ask for limits within the LimitRange of namespace %s, or change it"},
	{http.StatusForbidden, "RuntimeClass", api.KindUnisolated, "create the RuntimeClass, or change kubernetes.runtime-class: kubectl get runtimeclass"},
	{http.StatusForbidden, "PodSecurity", api.KindUnisolated, "namespace %s must allow pods of the restricted profile of Pod Security"},
	{http.StatusForbidden, "being terminated", api.KindUnisolated, "namespace %s is being deleted: create it again when that is done"},
	{http.StatusForbidden, `is forbidden: User "`, api.KindUnisolated, "the daemon's user or ServiceAccount needs a Role in namespace %s; docs/kubernetes.md lists its rules"},
	{http.StatusForbidden, "", api.KindUnisolated, "an admission rule of the cluster refuses it for namespace %s: ask its administrator"},
	{http.StatusUnauthorized, "", api.KindUnisolated, "the cluster does not accept the token or the certificate of the daemon: check its ServiceAccount, or kubernetes.kubeconfig"},
	{http.StatusNotFound, "namespaces ", api.KindUnisolated, "create namespace %s, or change kubernetes.namespace"},
	{http.StatusNotFound, "", api.KindNotFound, ""},
	{http.StatusUnprocessableEntity, "", api.KindInvalid, "check the limits of the sandbox, and the settings kubernetes.*"},
	{http.StatusTooManyRequests, "", api.KindExhausted, "the API server of the cluster is overloaded: try again in a minute"},
}

// refused returns the kind and the hint of an error.
func (s *Service) refused(status int, message string) (api.Kind, string) {
	for _, r := range refusals {
		if r.status == status && strings.Contains(message, r.has) {
			if strings.Contains(r.hint, "%s") {
				return r.kind, fmt.Sprintf(r.hint, s.cfg.Namespace)
			}
			return r.kind, r.hint
		}
	}
	return api.KindUnavailable, ""
}
