package helm_test

import (
	"maps"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// with returns the values of testdata/plain.values.yaml, and some others in their place.
func with(t *testing.T, given object) object {
	t.Helper()
	return merge(readYAML(t, "testdata/plain.values.yaml"), given)
}

func mustRender(t *testing.T, given object) map[string]object {
	t.Helper()
	objects, err := render(t, given)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// at returns a value within others: by the keys of maps, and of a list the only element.
func at(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		if list, ok := v.([]any); ok && len(list) == 1 {
			v = list[0]
		}
		in, ok := v.(object)
		if !ok {
			return nil
		}
		v = in[step]
	}
	return v
}

const (
	pod       = "spec.template.spec."
	container = pod + "containers."
)

// After a change of the chart, let Helm render testdata again, here for plain.yaml:
//
//	scripts/tool.sh helm template payments deploy/helm/idemsk-consumer --namespace ledger \
//	  -f test/helm/testdata/plain.values.yaml >test/helm/testdata/plain.yaml
func TestObjectsAreThoseOfHelm(t *testing.T) {
	for _, name := range []string{"plain", "full", "sidecar"} {
		got := mustRender(t, readYAML(t, "testdata/"+name+".values.yaml"))
		want := make(map[string]object)
		addByKind(t, want, documents(t, read(t, "testdata/"+name+".yaml")))
		for _, kind := range slices.Sorted(maps.Keys(merge(asAny(want), asAny(got)))) {
			if !reflect.DeepEqual(got[kind], want[kind]) {
				t.Errorf("%s, %s:\n%v\nHelm's in testdata:\n%v", name, kind, got[kind], want[kind])
			}
		}
	}
}

func asAny(objects map[string]object) object {
	all := make(object)
	for kind, one := range objects {
		all[kind] = one
	}
	return all
}

func TestObjectsThatAreOff(t *testing.T) {
	for _, tc := range []struct {
		given object
		want  []string
	}{
		{nil, []string{"Deployment", "PodDisruptionBudget", "ServiceAccount"}},
		{object{"podDisruptionBudget": object{"enabled": false}, "serviceAccount": object{"create": false}},
			[]string{"Deployment"}},
		{object{"service": object{"enabled": true}, "networkPolicy": object{"enabled": true}},
			[]string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}},
	} {
		if got := slices.Sorted(maps.Keys(mustRender(t, with(t, tc.given)))); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v; want %v", tc.given, got, tc.want)
		}
	}
}

// configuration reads the environment of the container as the process does, with a text for each secret.
func configuration(t *testing.T, deployment object) process.Config {
	t.Helper()
	env := make(map[string]string)
	for _, one := range at(deployment, container+"env").([]any) {
		name := at(one, "name").(string)
		if _, twice := env[name]; twice {
			t.Errorf("%s is set twice", name)
		}
		env[name] = "secret:1"
		if value, ok := at(one, "value").(string); ok {
			env[name] = value
		}
	}
	vars := app.NewVars(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
	cfg := process.ReadConfig(vars)
	if err := vars.Err(); err != nil {
		t.Errorf("the process refuses its environment: %v", err)
	}
	return cfg
}

// docs/consumer.md: the orchestrator waits longer than IDEMSK_DRAIN_TIMEOUT and 6 s.
func TestPodIsKilledAfterItsProcessHasDrained(t *testing.T) {
	for _, seconds := range []int{1, 20, 600} {
		deployment := mustRender(t, with(t, object{"drainSeconds": seconds}))["Deployment"]
		drain := configuration(t, deployment).Consumer.DrainTimeout
		grace := at(deployment, pod+"terminationGracePeriodSeconds").(int)
		if drain != time.Duration(seconds)*time.Second || grace <= seconds+6 {
			t.Errorf("drainSeconds %d: drains for %v, is killed after %d s", seconds, drain, grace)
		}
	}
	byDefault := mustRender(t, with(t, nil))["Deployment"]
	if drain := configuration(t, byDefault).Consumer.DrainTimeout; drain != consumer.DefaultDrainTimeout {
		t.Errorf("drains for %v by default; want %v", drain, consumer.DefaultDrainTimeout)
	}
}

func TestProcessReadsItsEnvironment(t *testing.T) {
	full := readYAML(t, "testdata/full.values.yaml")
	cfg := configuration(t, mustRender(t, full)["Deployment"])
	if cfg.Consumer.MaxBytes != 64<<20 || cfg.Consumer.Group != "1234" ||
		!slices.Equal(cfg.Consumer.Brokers, []string{"secret:1"}) {
		t.Errorf("the process reads %+v", cfg.Consumer)
	}
}

func TestProbesReachTheProcess(t *testing.T) {
	deployment := mustRender(t, with(t, nil))["Deployment"]
	_, port, err := net.SplitHostPort(configuration(t, deployment).HTTPAddr)
	number, name := at(deployment, container+"ports.containerPort"), at(deployment, container+"ports.name")
	if err != nil || strconv.Itoa(number.(int)) != port {
		t.Errorf("port %v; the process listens on %s: %v", number, port, err)
	}
	for probe, path := range map[string]string{"livenessProbe": "/livez", "readinessProbe": "/readyz"} {
		get := at(deployment, container+probe+".httpGet")
		if at(get, "path") != path || at(get, "port") != name {
			t.Errorf("%s: %v; want %s at the port %s", probe, get, path, name)
		}
	}
	if !strings.Contains(read(t, "../../scripts/release.sh"), "IDEMSK_HTTP_ADDR=:"+port+" ") {
		t.Errorf("the image of idemsk-consumer does not listen on %s: a web service in its pod may", port)
	}
}

// The example of docs/sidecar.md is rendered as the page says. Before Kubernetes 1.29 the pod would wait for
// the end of the service.
func TestServiceIsASidecar(t *testing.T) {
	values := with(t, exampleOf(t, "../../docs/sidecar.md"))
	deployment := mustRender(t, values)["Deployment"]
	if got := at(deployment, container+"args"); !reflect.DeepEqual(got, values["args"]) {
		t.Errorf("the program's arguments are %v, want %v", got, values["args"])
	}
	want := []any{object{"name": "payments", "image": "REGISTRY/payments:TAG", "restartPolicy": "Always"}}
	if got := at(deployment, pod+"initContainers"); !reflect.DeepEqual(got, want) {
		t.Errorf("before it start %v, want %v", got, want)
	}
	for version, refused := range map[string]bool{"v1.28.15-eks-1": true, "v1.29.0-eks-1": false} {
		if _, err := renderFor(t, version, values); (err != nil) != refused ||
			refused && !strings.Contains(err.Error(), "sidecars need Kubernetes 1.29") {
			t.Errorf("Kubernetes %s: %v, want an error: %t", version, err, refused)
		}
		if _, err := renderFor(t, version, with(t, nil)); err != nil {
			t.Errorf("Kubernetes %s, without a sidecar: %v", version, err)
		}
	}
}

func TestProcessHasNoRights(t *testing.T) {
	deployment := mustRender(t, with(t, nil))["Deployment"]
	for path, want := range map[string]any{
		pod + "automountServiceAccountToken":                   false,
		pod + "enableServiceLinks":                             false,
		pod + "securityContext.runAsNonRoot":                   true,
		pod + "securityContext.seccompProfile.type":            "RuntimeDefault",
		container + "securityContext.allowPrivilegeEscalation": false,
		container + "securityContext.readOnlyRootFilesystem":   true,
		container + "securityContext.capabilities":             object{"drop": []any{"ALL"}},
	} {
		if got := at(deployment, path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v; want %v", path, got, want)
		}
	}
	user := at(deployment, pod+"securityContext.runAsUser").(int)
	if !strings.Contains(read(t, "../../deploy/Dockerfile"), "\nUSER "+strconv.Itoa(user)+":") {
		t.Errorf("the user %d is not that of deploy/Dockerfile", user)
	}
}

func TestSelectorsFindThePods(t *testing.T) {
	objects := mustRender(t, readYAML(t, "testdata/full.values.yaml"))
	labels := at(objects["Deployment"], "spec.template.metadata.labels").(object)
	for kind, path := range map[string]string{
		"Deployment": "spec.selector.matchLabels", "Service": "spec.selector",
		"PodDisruptionBudget": "spec.selector.matchLabels", "NetworkPolicy": "spec.podSelector.matchLabels",
	} {
		selector, _ := at(objects[kind], path).(object)
		if len(selector) == 0 || !reflect.DeepEqual(merge(labels, selector), labels) {
			t.Errorf("%s selects %v; the pods have %v", kind, selector, labels)
		}
	}
}

// In a NetworkPolicy a rule without peers allows all.
func TestNobodyReachesTheMetricsUnlessAllowed(t *testing.T) {
	policy := mustRender(t, with(t, object{"networkPolicy": object{"enabled": true}}))["NetworkPolicy"]
	if got := at(policy, "spec.ingress"); !reflect.DeepEqual(got, []any{}) {
		t.Errorf("ingress %v; want no rule", got)
	}
	if got := at(policy, "spec.policyTypes"); !reflect.DeepEqual(got, []any{"Ingress"}) {
		t.Errorf("%v; want Ingress alone, as there are no rules for egress", got)
	}
}

func TestServiceAccountOfThePod(t *testing.T) {
	for want, given := range map[string]object{"payments": nil, "mine": {"name": "mine"},
		"theirs": {"create": false, "name": "theirs"}, "default": {"create": false}} {
		objects := mustRender(t, with(t, object{"serviceAccount": given}))
		if got := at(objects["Deployment"], pod+"serviceAccountName"); got != want {
			t.Errorf("%v: the pod's is %v; want %s", given, got, want)
		}
		if made := objects["ServiceAccount"]; made != nil && at(made, "metadata.name") != want {
			t.Errorf("%v: makes %v; want %s", given, at(made, "metadata.name"), want)
		}
	}
}

// The errors say what to set.
func TestValuesThatAreRefused(t *testing.T) {
	secret := func(name string) object {
		return object{"secrets": object{name: object{"name": "a", "key": "b"}}}
	}
	setting := func(name, value string) object { return object{"settings": object{name: value}} }
	for want, given := range map[string]object{
		"image.repository is not set":                   {"image": object{"repository": ""}},
		"image.tag is not set":                          {"image": object{"tag": ""}},
		"settings.IDEMSK_KAFKA_BROKERS is not set":      setting("IDEMSK_KAFKA_BROKERS", ""),
		"settings.IDEMSK_KAFKA_TOPICS is not set":       setting("IDEMSK_KAFKA_TOPICS", ""),
		"settings.IDEMSK_KAFKA_GROUP is not set":        setting("IDEMSK_KAFKA_GROUP", ""),
		"IDEMSK_TABLE is in settings and in secrets":    secret("IDEMSK_TABLE"),
		"IDEMSK_DRAIN_TIMEOUT out of settings and":      setting("IDEMSK_DRAIN_TIMEOUT", "20s"),
		"IDEMSK_HTTP_ADDR out of settings and secrets":  setting("IDEMSK_HTTP_ADDR", ":80"),
		"IDEMSK_KAFKA_LEAVE out of settings and":        setting("IDEMSK_KAFKA_LEAVE", "true"),
		"IDEMSK_KAFKA_INSTANCE_ID out of settings and ": secret("IDEMSK_KAFKA_INSTANCE_ID"),
	} {
		if _, err := render(t, with(t, given)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", given, err, want)
		}
	}
}

func TestVersionIsThatOfTheChangelog(t *testing.T) {
	first := regexp.MustCompile(`(?m)^## v(.+)$`).FindStringSubmatch(read(t, "../../CHANGELOG.md"))
	meta := readYAML(t, chart+"/Chart.yaml")
	version, app := meta["version"], meta["appVersion"]
	if len(first) == 0 || version != first[1] || app != first[1] {
		t.Errorf("version %v, appVersion %v; the changelog begins with %q", version, app, first)
	}
}
