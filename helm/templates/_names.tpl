{{- define "lockgate.name" -}}
{{- $full := printf "%s-%s" .Release.Name .Chart.Name }}
{{- ternary .Release.Name $full (contains .Chart.Name .Release.Name) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "lockgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lockgate.labels" -}}
{{ include "lockgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* lockgate.yaml: what was given, and what only the chart knows. */ -}}
{{- define "lockgate.config" -}}
{{- $name := include "lockgate.name" . }}
{{- $space := printf "%s.%s" $name .Release.Namespace }}
{{- $own := list $name $space (printf "%s.svc" $space) (printf "%s.svc.cluster.local" $space) }}
{{- $http := .Values.config.http | default dict }}
{{- $hosts := concat $own ($http.hosts | default list) | uniq }}
{{- $set := dict "listen" "0.0.0.0:3001" "auth" (dict "key" "${LOCKGATE_KEY}") "secret" "${LOCKGATE_SECRET}" "http" (dict "hosts" $hosts "drain" .Values.drainSeconds) "admin" (dict "listen" "0.0.0.0:3002") }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $set) }}
{{- end }}
