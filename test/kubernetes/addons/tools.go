//go:build tools

package addons

import _ "helm.sh/helm/v3/cmd/helm"
