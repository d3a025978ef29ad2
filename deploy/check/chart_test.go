// Package check_test checks the Helm chart. It is a module of its own, because the program needs neither Helm nor
// Kubernetes.
package check_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

const chartDir = "../helm/seckill"

// strict decodes the objects of Kubernetes, and refuses unknown and duplicate fields.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// valuesOf returns the values of a file in ci/ with changes, which replace the values of its top level.
func valuesOf(t *testing.T, file string, changes map[string]any) map[string]any {
	t.Helper()
	text, err := os.Open(filepath.Join(chartDir, "ci", file))
	require.NoError(t, err)
	defer text.Close()
	values, err := loader.LoadValues(text)
	require.NoError(t, err)
	return loader.MergeMaps(values, changes)
}

func render(t *testing.T, values map[string]any) (map[string]runtime.Object, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	require.NoError(t, err)
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "shop", Namespace: "sales", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), chart, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]runtime.Object{}
	for name, text := range files {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if len(bytes.TrimSpace(document)) == 0 {
				continue
			}
			object, kind, err := strict.Decode(document, nil, nil)
			if runtime.IsNotRegisteredError(err) {
				object, kind, err = decodeExtension(document)
			}
			require.NoError(t, err, "%s:\n%s", name, document)
			require.NotContains(t, objects, kind.Kind)
			objects[kind.Kind] = object
		}
	}
	return objects, nil
}

// decodeExtension decodes an object that is not part of Kubernetes, such as a PodMonitor. Its fields are not checked.
func decodeExtension(document []byte) (runtime.Object, *schema.GroupVersionKind, error) {
	text, err := yaml.ToJSON(document)
	if err != nil {
		return nil, nil, err
	}
	return unstructured.UnstructuredJSONScheme.Decode(text, nil, nil)
}

func mustRender(t *testing.T, file string, changes map[string]any) map[string]runtime.Object {
	t.Helper()
	objects, err := render(t, valuesOf(t, file, changes))
	require.NoError(t, err)
	return objects
}

func kinds(objects map[string]runtime.Object) []string { return slices.Sorted(maps.Keys(objects)) }

func TestChartPassesLint(t *testing.T) {
	for _, file := range []string{"minimal-values.yaml", "full-values.yaml"} {
		for _, m := range lint.RunAll(chartDir, valuesOf(t, file, nil), "sales").Messages {
			require.LessOrEqual(t, m.Severity, support.InfoSev, "%s: %s", file, m)
		}
	}
}

func TestMinimalValues(t *testing.T) {
	objects := mustRender(t, "minimal-values.yaml", nil)
	require.Equal(t, []string{"Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"}, kinds(objects))
	deployment := objects["Deployment"].(*apps.Deployment)
	require.EqualValues(t, 3, *deployment.Spec.Replicas)
	require.Equal(t, "registry.example/seckill:1.2.3", deployment.Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, []networking.PolicyType{networking.PolicyTypeIngress}, objects["NetworkPolicy"].(*networking.NetworkPolicy).Spec.PolicyTypes)
	require.Equal(t, map[string]string{
		"GOMEMLIMIT": "920MiB", "POD_IP": "status.podIP",
		"SECKILL_ADDR": ":8080", "SECKILL_OPS_ADDR": "[$(POD_IP)]:9090", "SECKILL_DRAIN": "10s",
		"SECKILL_MYSQL_DSN_FILE": "/etc/seckill/secrets/mysqlDSN", "SECKILL_JWT_SECRET_FILE": "/etc/seckill/secrets/jwtSecret",
		"SECKILL_REDIS_ADDRS": "redis:6379", "SECKILL_UNSAFE": "codes,sandbox,admins",
	}, variables(deployment.Spec.Template.Spec))

	// While the database is down no pod is ready. Nodes can be drained all the same.
	budget := objects["PodDisruptionBudget"].(*policy.PodDisruptionBudget)
	require.Equal(t, policy.AlwaysAllow, *budget.Spec.UnhealthyPodEvictionPolicy)

	// The migration runs before the servers.
	job := objects["Job"].(*batch.Job)
	require.Equal(t, "pre-install,pre-upgrade", job.Annotations["helm.sh/hook"])
	require.Equal(t, []string{"migrate", "up"}, job.Spec.Template.Spec.Containers[0].Args)
	require.EqualValues(t, 900, *job.Spec.ActiveDeadlineSeconds)
}

func TestFullValues(t *testing.T) {
	objects := mustRender(t, "full-values.yaml", nil)
	require.Equal(t, []string{"Deployment", "HorizontalPodAutoscaler", "Ingress", "Job", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "Service"}, kinds(objects))
	deployment, scaler := objects["Deployment"].(*apps.Deployment), objects["HorizontalPodAutoscaler"].(*autoscaling.HorizontalPodAutoscaler)
	require.Nil(t, deployment.Spec.Replicas, "an upgrade would undo the decision of the autoscaler")
	require.Equal(t, deployment.Name, scaler.Spec.ScaleTargetRef.Name)
	require.EqualValues(t, 20, scaler.Spec.MaxReplicas)
	pod := deployment.Spec.Template.Spec
	require.Equal(t, "registry.example/seckill@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pod.Containers[0].Image)
	env := variables(pod)
	require.Equal(t, "/etc/seckill/secrets/redisCA", env["SECKILL_REDIS_CA"])
	require.Equal(t, "/etc/seckill/secrets/redisPassword", env["SECKILL_REDIS_PASSWORD_FILE"])
	require.Len(t, pod.Volumes[0].Secret.Items, 6)
	require.Equal(t, "13800000000", env["SECKILL_ADMIN_PHONES"])
	require.Equal(t, "http://collector:4318", env["OTEL_EXPORTER_OTLP_ENDPOINT"])
	require.Equal(t, "telemetry/headers", env["OTEL_EXPORTER_OTLP_HEADERS"])

	// A pod of the migration gets the same, but for what selects and monitors servers.
	for _, pod := range []core.PodSpec{pod, objects["Job"].(*batch.Job).Spec.Template.Spec} {
		require.Equal(t, "/etc/seckill/ca/ca.crt", variables(pod)["SSL_CERT_FILE"])
		require.Equal(t, "ca", pod.Volumes[2].Name)
		require.Equal(t, "/etc/seckill/ca", pod.Containers[0].VolumeMounts[2].MountPath)
		require.Equal(t, "shop", pod.ServiceAccountName)
		require.Equal(t, "sale", pod.PriorityClassName)
		require.NotNil(t, pod.Affinity.NodeAffinity)
	}
	require.Equal(t, "sales", deployment.Spec.Template.Labels["example.com/cost-centre"])
	service := objects["Service"].(*core.Service)
	require.Equal(t, core.ServiceTypeLoadBalancer, service.Spec.Type)
	require.Equal(t, "true", service.Annotations["example.com/internal"])

	rules := objects["NetworkPolicy"].(*networking.NetworkPolicy).Spec
	require.Len(t, rules.Ingress, 2)
	require.Equal(t, "metrics", rules.Ingress[1].Ports[0].Port.StrVal)
	require.Len(t, rules.Ingress[1].From, 1)
	require.Len(t, rules.Egress, 2, "DNS and the rule of the values")
	require.Equal(t, map[string]string{"example.com/note": "text", "nginx.ingress.kubernetes.io/proxy-body-size": "11m"},
		objects["Ingress"].(*networking.Ingress).Annotations)
	ingress := objects["Ingress"].(*networking.Ingress).Spec
	require.Equal(t, "shop-tls", ingress.TLS[0].SecretName)
	require.Equal(t, service.Name, ingress.Rules[0].HTTP.Paths[0].Backend.Service.Name)
}

// TestMonitorHasTheJobOfTheAlerts: the alerts select the job, so with another one all but the first stay silent.
func TestMonitorHasTheJobOfTheAlerts(t *testing.T) {
	objects := mustRender(t, "full-values.yaml", nil)
	monitor := objects["PodMonitor"].(*unstructured.Unstructured)
	require.Equal(t, "prometheus", monitor.GetLabels()["release"])

	selector, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	require.NoError(t, err)
	deployment := objects["Deployment"].(*apps.Deployment)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, selector)

	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	require.NoError(t, err)
	require.Len(t, endpoints, 1)
	endpoint := endpoints[0].(map[string]any)
	ports := deployment.Spec.Template.Spec.Containers[0].Ports
	require.True(t, slices.ContainsFunc(ports, func(p core.ContainerPort) bool { return p.Name == endpoint["port"] }))
	require.Equal(t, []any{map[string]any{"targetLabel": "job", "replacement": "seckill"}}, endpoint["relabelings"])
	alerts, err := os.ReadFile("../prometheus/alerts.yml")
	require.NoError(t, err)
	require.Contains(t, string(alerts), `job="seckill"`)
}

// TestIngressWithoutTLS: TLS ends at a load balancer in front of the ingress.
func TestIngressWithoutTLS(t *testing.T) {
	objects := mustRender(t, "minimal-values.yaml", map[string]any{"ingress": map[string]any{"enabled": true, "host": "shop.example"}})
	require.Empty(t, objects["Ingress"].(*networking.Ingress).Spec.TLS)
}

func TestEverythingOptionalCanBeOff(t *testing.T) {
	off := map[string]any{"enabled": false}
	objects := mustRender(t, "minimal-values.yaml", map[string]any{
		"migration": off, "podDisruptionBudget": off, "networkPolicy": off, "preStopSeconds": 0,
	})
	require.Equal(t, []string{"Deployment", "Service"}, kinds(objects))
	require.Nil(t, objects["Deployment"].(*apps.Deployment).Spec.Template.Spec.Containers[0].Lifecycle)
}

// Every pod runs without root, writes to no disk, and gets its secrets as files.
func TestPodsAreConfined(t *testing.T) {
	for _, file := range []string{"minimal-values.yaml", "full-values.yaml"} {
		objects := mustRender(t, file, nil)
		for name, pod := range map[string]core.PodSpec{
			"server":    objects["Deployment"].(*apps.Deployment).Spec.Template.Spec,
			"migration": objects["Job"].(*batch.Job).Spec.Template.Spec,
		} {
			require.True(t, *pod.SecurityContext.RunAsNonRoot, name)
			require.NotZero(t, *pod.SecurityContext.RunAsUser, name)
			require.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type, name)
			require.False(t, *pod.AutomountServiceAccountToken, name)
			require.Len(t, pod.Containers, 1)
			c := pod.Containers[0]
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
			require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
			require.NotZero(t, c.Resources.Limits.Memory().Value(), name)
			require.NotZero(t, c.Resources.Requests.Cpu().MilliValue(), name)
			require.Equal(t, "seckill", pod.Volumes[0].Secret.SecretName, name)
			for _, v := range pod.Volumes {
				require.True(t, v.Secret != nil || v.EmptyDir.Medium == core.StorageMediumMemory, "%s: %s", name, v.Name)
			}
			for variable := range variables(pod) {
				require.False(t, strings.HasSuffix(variable, "_SECRET") || strings.HasSuffix(variable, "_PASSWORD") || strings.HasSuffix(variable, "_DSN"), variable)
			}
		}
	}
}

// A pod is given the time of its shutdown: preStop, the drain, 20 s for requests in progress, and some for background
// tasks.
func TestGracePeriodCoversShutdown(t *testing.T) {
	for _, times := range [][3]int64{{0, 5, 35}, {3, 10, 43}, {60, 300, 390}} {
		objects := mustRender(t, "minimal-values.yaml", map[string]any{"preStopSeconds": times[0], "drainSeconds": times[1]})
		pod := objects["Deployment"].(*apps.Deployment).Spec.Template.Spec
		require.Equal(t, times[2], *pod.TerminationGracePeriodSeconds)
		if times[0] > 0 {
			require.Equal(t, times[0], pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds)
		}
		probe := pod.Containers[0].ReadinessProbe
		require.Less(t, int64(probe.PeriodSeconds*probe.FailureThreshold), times[1], "a pod is unready before its port closes")
		require.Equal(t, "/readyz", probe.HTTPGet.Path)
		require.Equal(t, "/healthz", pod.Containers[0].LivenessProbe.HTTPGet.Path)
		require.Equal(t, "/healthz", pod.Containers[0].StartupProbe.HTTPGet.Path)
	}
}

// The selectors of the Service, the Deployment and the budget match servers only; the policy also matches migrations.
func TestSelectorsMatchPods(t *testing.T) {
	objects := mustRender(t, "full-values.yaml", nil)
	deployment := objects["Deployment"].(*apps.Deployment)
	server := labels.Set(deployment.Spec.Template.Labels)
	migration := labels.Set(objects["Job"].(*batch.Job).Spec.Template.Labels)
	for name, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels,
		"Service":    objects["Service"].(*core.Service).Spec.Selector,
		"budget":     objects["PodDisruptionBudget"].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels,
		"zones":      deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
		"nodes":      deployment.Spec.Template.Spec.TopologySpreadConstraints[1].LabelSelector.MatchLabels,
	} {
		require.True(t, labels.SelectorFromSet(selector).Matches(server), name)
		require.False(t, labels.SelectorFromSet(selector).Matches(migration), name)
	}
	all := labels.SelectorFromSet(objects["NetworkPolicy"].(*networking.NetworkPolicy).Spec.PodSelector.MatchLabels)
	require.True(t, all.Matches(server) && all.Matches(migration))
}

func TestInvalidValuesAreRefused(t *testing.T) {
	_, err := render(t, nil)
	for _, missing := range []string{"image/repository", "existingSecret", "settings/REDIS_ADDRS"} {
		require.ErrorContains(t, err, missing)
	}
	for name, tc := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"unknown value":        {map[string]any{"replica": 3}, "replica"},
		"unknown setting":      {map[string]any{"settings": map[string]any{"ORDER_LINE": "batch"}}, "ORDER_LINE"},
		"secret of telemetry":  {map[string]any{"openTelemetry": map[string]any{"EXPORTER_OTLP_HEADERS": "key"}}, "EXPORTER_OTLP_HEADERS"},
		"secret as a setting":  {map[string]any{"settings": map[string]any{"JWT_SECRET": "secret"}}, "JWT_SECRET"},
		"number as a setting":  {map[string]any{"settings": map[string]any{"QUEUE_BACKLOG": 5}}, "QUEUE_BACKLOG"},
		"no DSN":               {map[string]any{"secretKeys": map[string]any{"mysqlDSN": ""}}, "mysqlDSN"},
		"unknown key":          {map[string]any{"secretKeys": map[string]any{"password": "p"}}, "password"},
		"name of the secret":   {map[string]any{"existingSecret": "Not A Name"}, "existingSecret"},
		"no version":           {map[string]any{"image": map[string]any{"repository": "registry.example/seckill", "tag": ""}}, "image.tag"},
		"digest":               {map[string]any{"image": map[string]any{"digest": "sha256:12"}}, "digest"},
		"no servers":           {map[string]any{"replicas": 0}, "replicas"},
		"short drain":          {map[string]any{"drainSeconds": 1}, "drainSeconds"},
		"no memory limit":      {map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": nil}}}, "memory"},
		"quantity":             {map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "1 GB"}}}, "memory"},
		"Go's memory limit":    {map[string]any{"goMemLimit": "1Gi"}, "goMemLimit"},
		"ingress without host": {map[string]any{"ingress": map[string]any{"enabled": true}}, "host"},
		"scaling down only":    {map[string]any{"autoscaling": map[string]any{"enabled": true, "minReplicas": 5, "maxReplicas": 2}}, "maxReplicas"},
		"budget of everything": {map[string]any{"podDisruptionBudget": map[string]any{"maxUnavailable": "100%"}}, "maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, valuesOf(t, "minimal-values.yaml", tc.changes))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// variables returns the environment of the container by name. The value of a field is its path, that of a Secret its name
// and key.
func variables(pod core.PodSpec) map[string]string {
	env := map[string]string{}
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v.Value
		if v.ValueFrom == nil {
			continue
		}
		if field := v.ValueFrom.FieldRef; field != nil {
			env[v.Name] = field.FieldPath
		}
		if secret := v.ValueFrom.SecretKeyRef; secret != nil {
			env[v.Name] = secret.Name + "/" + secret.Key
		}
	}
	return env
}
