{{- define "relay-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end }}

{{- define "relay-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "relay-operator.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "relay-operator.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- /* Names of what is outside of namespaces: two releases in two namespaces must not share them. */ -}}
{{- define "relay-operator.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "relay-operator.fullname" .) -}}
{{- end }}

{{- define "relay-operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "relay-operator.fullname" .) -}}
{{- end }}

{{- define "relay-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "relay-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "relay-operator.labels" -}}
{{ include "relay-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A list: the root, and labels that win. Twice in one object, a label is an error for Flux. */ -}}
{{- define "relay-operator.labelsWith" -}}
{{- toYaml (mergeOverwrite (include "relay-operator.labels" (first .) | fromYaml) (last . | default dict)) -}}
{{- end }}

{{- define "relay-operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- define "relay-operator.publicHost" -}}
{{- (urlParse (.Values.webhook.publicUrl | default "")).hostname | lower -}}
{{- end }}

{{- /* Of a duration as Prometheus writes it, such as 1m30s. */ -}}
{{- define "relay-operator.milliseconds" -}}
{{- $form := "^(?:0*([0-9]+)h)?(?:0*([0-9]+)m)?(?:0*([0-9]+)s)?(?:0*([0-9]+)ms)?$" -}}
{{- $sum := 0 -}}
{{- range $group, $unit := list 3600000 60000 1000 1 -}}
{{- $sum = add $sum (mul $unit (regexReplaceAll $form $ (printf "${%d}" (add1 $group)) | int64)) -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{- define "relay-operator.byTheOperator" -}}
- name: by-the-operator
  expression: >-
    request.userInfo.username ==
    'system:serviceaccount:{{ .Release.Namespace }}:{{ include "relay-operator.serviceAccountName" . }}'
{{- end }}

{{- define "relay-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "relay-operator.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{- define "relay-operator.onOpenShift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1/SecurityContextConstraints" }}yes{{ end -}}
{{- end }}

{{- /* OpenShift gives each namespace users and groups of its own, and refuses Pods that name others. */ -}}
{{- define "relay-operator.user" -}}
runAsNonRoot: true
{{- if not (include "relay-operator.onOpenShift" .) }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}
