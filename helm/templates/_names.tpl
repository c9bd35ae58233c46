{{- define "lockgate.name" -}}
{{- $full := printf "%s-%s" .Release.Name .Chart.Name }}
{{- $own := ternary .Release.Name $full (contains .Chart.Name .Release.Name) }}
{{- .Values.nameOverride | default $own | trunc 50 | trimSuffix "-" }}
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

{{- /* metadata of an object: (list $ SUFFIX LABELS ANNOTATIONS), the last three may be empty. */ -}}
{{- define "lockgate.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "lockgate.name" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- $own := fromYaml (include "lockgate.labels" $root) }}
  {{- toYaml (merge $own (index . 2 | default dict) $root.Values.labels) | nindent 2 }}
{{- with merge dict (index . 3 | default dict) $root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "lockgate.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- define "lockgate.account" -}}
{{- $own := ternary (include "lockgate.name" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $own }}
{{- end }}

{{- /* The Secret with the certificate of the pods, or nothing. */ -}}
{{- define "lockgate.certificate" -}}
{{- if .Values.tls.existingSecret }}
{{- .Values.tls.existingSecret }}
{{- else if .Values.tls.certManager.issuer }}
{{- include "lockgate.name" . }}-tls
{{- end }}
{{- end }}

{{- /* Not empty where there can be several pods that reach each other. They have no client certificate. */ -}}
{{- define "lockgate.replicas" -}}
{{- $many := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}
{{- $ca := .Values.tls.clientCa }}
{{- if and $many (not (and (or $ca.configMap $ca.secret) (eq $ca.auth "required"))) }}true{{ end }}
{{- end }}

{{- /* What the pods have in common with the one of `helm test`. */ -}}
{{- define "lockgate.podSecurity" -}}
{{- $set := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- with .Values.runAsUser }}
{{- $set = merge $set (dict "runAsUser" (int64 .) "runAsGroup" (int64 .) "fsGroup" (int64 .)) }}
{{- end }}
{{- toYaml (merge $set .Values.podSecurityContext) }}
{{- end }}

{{- define "lockgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
