{{- /* Names of the Host header that lead here: those of the Services, and those of Ingress and HTTPRoute. */ -}}
{{- define "lockgate.hosts" -}}
{{- $hosts := list }}
{{- range list "" "-admin" }}
{{- $name := printf "%s%s" (include "lockgate.name" $) . }}
{{- $space := printf "%s.%s" $name $.Release.Namespace }}
{{- $hosts = concat $hosts (list $name $space (printf "%s.svc" $space) (printf "%s.svc.cluster.local" $space)) }}
{{- end }}
{{- with .Values.ingress }}{{ if .enabled }}{{ $hosts = concat $hosts .hosts }}{{ end }}{{ end }}
{{- with .Values.httpRoute }}{{ if .enabled }}{{ $hosts = concat $hosts .hostnames }}{{ end }}{{ end }}
{{- with .Values.tls.name }}{{ $hosts = append $hosts . }}{{ end }}
{{- $given := dig "http" "hosts" list .Values.config | default list }}
{{- if kindIs "string" $given }}{{ $given = splitList "," (nospace $given) }}{{ end }}
{{- toYaml (concat $hosts $given | uniq) }}
{{- end }}

{{- /* lockgate.yaml: what was given, and what only the chart knows. `[::]` is IPv6 and IPv4, or IPv4 alone where nodes have no IPv6. */ -}}
{{- define "lockgate.config" -}}
{{- $given := deepCopy .Values.config }}
{{- $http := dict "hosts" (fromYamlArray (include "lockgate.hosts" .)) "drain" .Values.drainSeconds }}
{{- $auth := dict }}
{{- $set := dict "listen" "[::]:3001" "admin" (dict "listen" "[::]:3002") "secret" "${LOCKGATE_SECRET}" }}
{{- with .Values.auth }}
{{- if .key }}{{ $_ := set $auth "key" "${LOCKGATE_KEY}" }}{{ end }}
{{- $old := list }}
{{- range $at, $_ := .oldSecrets }}{{ $old = append $old (printf "${OLD_SECRET_%d}" $at) }}{{ end }}
{{- if $old }}{{ $_ := set $set "old_secrets" $old }}{{ end }}
{{- end }}
{{- with .Values.files }}
{{- if or .policies.configMap .policies.secret }}
{{- $files := dig "policy" "files" list $given | default list }}
{{- if kindIs "string" $files }}{{ $files = splitList "," (nospace $files) }}{{ end }}
{{- $_ := set $set "policy" (dict "files" (append $files "/etc/lockgate/policies/*.yaml")) }}
{{- end }}
{{- if or .pins.configMap .pins.secret }}{{ $_ := set $set "pins" (dict "file" "/etc/lockgate/pins/pins.json") }}{{ end }}
{{- if .apiKeys.secret }}{{ $_ := set $auth "keys_file" "/etc/lockgate/keys/keys.yaml" }}{{ end }}
{{- if or .ca.configMap .ca.secret }}{{ $_ := set $set "egress" (dict "ca_file" "/etc/lockgate/ca/ca.crt") }}{{ end }}
{{- end }}
{{- if include "lockgate.certificate" . }}
{{- $tls := dict "cert" "/etc/lockgate/tls/tls.crt" "key" "/etc/lockgate/tls/tls.key" }}
{{- with .Values.tls.clientCa }}{{ if or .configMap .secret }}
{{- $tls = merge $tls (dict "client_ca" "/etc/lockgate/client-ca/ca.crt" "client_auth" .auth) }}
{{- end }}{{ end }}
{{- $_ := set $http "tls" $tls }}
{{- end }}
{{- with .Values.store }}
{{- $store := dict }}
{{- if .url }}{{ $_ := set $store "url" "${STORE_URL}" }}{{ end }}
{{- if .sqlite.enabled }}{{ $_ := set $store "file" "/var/lib/lockgate/store/lockgate.db" }}{{ end }}
{{- $keys := list }}
{{- range $at, $_ := .keys }}{{ $keys = append $keys (printf "${STORE_KEY_%d}" $at) }}{{ end }}
{{- if $keys }}{{ $_ := set $store "keys" $keys }}{{ end }}
{{- if $store }}{{ $_ := set $set "store" $store }}{{ end }}
{{- end }}
{{- with .Values.redis }}
{{- if .url }}
{{- $redis := dict "url" "${REDIS_URL}" }}
{{- if .prefix }}{{ $_ := set $redis "prefix" .prefix }}{{ end }}
{{- $_ := set $set "redis" $redis }}
{{- end }}
{{- end }}
{{- if include "lockgate.replicas" . }}
{{- $space := printf "%s.svc" .Release.Namespace }}
{{- $replicas := dict "address" "${REPLICA_ADDRESS}" "peers" (list (printf "%s-peers.%s" (include "lockgate.name" .) $space)) }}
{{- if include "lockgate.certificate" . }}
{{- $_ := set $replicas "tls_name" (.Values.tls.name | default (printf "%s.%s" (include "lockgate.name" .) $space)) }}
{{- end }}
{{- $_ := set $set "replicas" $replicas }}
{{- end }}
{{- if $auth }}{{ $_ := set $set "auth" $auth }}{{ end }}
{{- toYaml (mergeOverwrite $given (merge (dict "http" $http) $set)) }}
{{- end }}
