package kafka_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"

	"github.com/idemsk/idemsk/internal/reconcile/prom"
	"github.com/idemsk/idemsk/kafka/consumer/monitor"
)

const alertsFile = "../../deploy/alerts.yaml"

// rule is an alert rule. Its fields are those that deploy/alerts.yaml uses.
type rule struct {
	Alert, Expr string
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules reads the alert rules, and the text of their file.
func rules(t *testing.T) (all []rule, text string) {
	t.Helper()
	file, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.UnmarshalStrict(file, &content); err != nil || len(content.Groups) != 1 {
		t.Fatalf("%v; %d groups; want 1", err, len(content.Groups))
	}
	return content.Groups[0].Rules, string(file)
}

// metricsOf returns the names of the metrics in an expression, by the parser of Prometheus.
func metricsOf(t *testing.T, r *rule) (names []string) {
	t.Helper()
	if len(r.Annotations) != 1 || !strings.HasSuffix(r.Annotations["summary"], ".") {
		t.Errorf("%s: annotations %q; want a summary alone, which is quoted if it has a comma", r.Alert, r.Annotations)
	}
	if r.For != "" {
		if _, err := time.ParseDuration(r.For); err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
	}
	expr, err := parser.ParseExpr(r.Expr)
	if err != nil {
		t.Errorf("%s: %v", r.Alert, err)
		return nil
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			names = append(names, s.Name)
		}
		return nil
	})
	return names
}

// An alert on a metric that does not exist never fires.
func TestAlertRulesUseExportedMetrics(t *testing.T) {
	exported := []string{"up"} // of Prometheus itself
	inBubble(t, 1, func(f *fixture) {
		f.produce(0, 1, 0)
		c := f.start()
		f.until("the partition is assigned", func() bool { return f.calledOnce(1) })
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(monitor.NewCollector(c.Consumer), monitor.NewOutcomes())
		prom.Register(registry)
		families, err := registry.Gather()
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range families {
			exported = append(exported, m.GetName())
		}
		c.mustEnd()
	})
	all, _ := rules(t)
	for i := range all {
		r := &all[i]
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", r.Alert)
		}
		names := metricsOf(t, r)
		if len(names) == 0 {
			t.Errorf("%s: %q has no metric", r.Alert, r.Expr)
		}
		for _, name := range names {
			if !slices.Contains(exported, name) {
				t.Errorf("%s: %s is not exported", r.Alert, name)
			}
		}
	}
}

// docs/operations.md has a paragraph for each alarm of the construct (TestAlarmsAreDocumented).
func TestEveryAlarmHasARuleOrAReason(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all, text := rules(t)
	var excluded []string
	for _, line := range regexp.MustCompile(`(?m)^# - ([A-Za-z, ]+): .`).FindAllStringSubmatch(text, -1) {
		excluded = append(excluded, strings.Split(line[1], ", ")...)
	}
	alarms := regexp.MustCompile(`(?m)^- \*\*([A-Za-z]+)\*\* – `).FindAllStringSubmatch(string(manual), -1)
	if len(alarms) == 0 {
		t.Fatal("docs/operations.md has no alarms")
	}
	for _, alarm := range alarms {
		has := slices.ContainsFunc(all, func(r rule) bool { return r.Alert == alarm[1] })
		if has == slices.Contains(excluded, alarm[1]) {
			t.Errorf("%s: it has a rule: %v; want a rule or a reason, and not both", alarm[1], has)
		}
	}
	for _, name := range excluded {
		if !slices.ContainsFunc(alarms, func(m []string) bool { return m[1] == name }) {
			t.Errorf("%s has a reason and is no alarm", name)
		}
	}
}
