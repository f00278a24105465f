{{/* The name of everything: that of the release, with the chart's unless it contains it. */}}
{{- define "reassigner.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selectors go by; a StatefulSet's can never change. */}}
{{- define "reassigner.selector" -}}
app.kubernetes.io/name: reassigner
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "reassigner.labels" -}}
{{ include "reassigner.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The settings as TOML; Helm has made floating-point numbers of whole ones. */}}
{{- define "reassigner.settings" -}}
{{- $settings := dict -}}
{{- range $name, $value := .Values.settings -}}
{{- if kindIs "float64" $value -}}
{{- $value = ternary (int64 $value) $value (eq (floor $value) $value) -}}
{{- end -}}
{{- $_ := set $settings $name $value -}}
{{- end -}}
{{- toToml $settings -}}
{{- end -}}
