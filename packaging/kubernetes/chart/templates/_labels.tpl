{{- define "hortus.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}

{{- define "hortus.selector" -}}
app.kubernetes.io/name: hortus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hortus.labels" -}}
{{ include "hortus.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "hortus.sandboxes" -}}{{ .Values.pods.namespace | default .Release.Namespace }}{{- end }}

{{- define "hortus.fleet" -}}
{{- if gt (include "hortus.maxReplicas" . | int) 1 }}
{{- if not (and .Values.fleet.keySecret (or .Values.postgres.url .Values.postgres.trial.enabled)) }}
{{- fail "several nodes need postgres.url (or postgres.trial.enabled) and fleet.keySecret" }}
{{- end }}
{{- end }}
{{- .Values.fleet.keySecret }}
{{- end }}

{{- define "hortus.maxReplicas" -}}
{{- if eq .Values.autoscaling.kind "none" }}{{ int .Values.replicas }}{{ else }}{{ int .Values.autoscaling.maxReplicas }}{{ end }}
{{- end }}

{{- define "hortus.size" -}}{{ if kindIs "string" . }}{{ . }}{{ else }}{{ int64 . }}{{ end }}{{- end }}
