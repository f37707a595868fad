package main

import (
	"strings"
	"testing"
)

func TestKeyScopeIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		settings values
		want     string
	}{
		"one topic":         {nil, "topic:payments"},
		"two, in any order": {values{"topics": "refunds=g2,payments"}, "topic:payments+refunds"},
		"a topic was added": {values{"topics": "refunds=g2,payments", "deployedKeyScope": "topic:payments"},
			"topic:payments+refunds"},
		"all that it reads": {values{"keyScope": "namespace"}, "namespace"},
		"a topic was renamed": {values{"keyScope": "namespace", "topics": "paid",
			"deployedKeyScope": "namespace"}, "namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.settings))
			scope, _, _ := strings.Cut(c.want, ":")
			equal(t, "the function's", variables(t, tpl)["IDEMSK_KEY_SCOPE"], scope)
			parameter := at(t, tpl["Parameters"], "KeyScope")
			equal(t, "default", at(t, parameter, "Default"), c.want)
			equal(t, "allowed", at(t, parameter, "AllowedValues"), []string{c.want})
			says := at(t, parameter, "ConstraintDescription").(string)
			if !strings.Contains(says, "--parameters KeyScope="+c.want) {
				t.Errorf("%q does not say how to change it on purpose", says)
			}
			equal(t, "output", at(t, tpl["Outputs"], "DeployedKeyScope", "Value"), values{"Ref": "KeyScope"})
		})
	}
}

// CloudFormation keeps a parameter's value and refuses one that the new template does not allow: so an update
// that changes the namespace fails before anything changes.
func TestNamespaceIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		settings values
		want     string
	}{
		"by default": {nil, "payments-ledger"},
		"by setting": {values{"namespace": "ledger", "deployedNamespace": "ledger"}, "ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.settings))
			equal(t, "the function's", variables(t, tpl)["IDEMSK_NAMESPACE"], c.want)
			parameter := at(t, tpl["Parameters"], "Namespace")
			equal(t, "default", at(t, parameter, "Default"), c.want)
			equal(t, "allowed", at(t, parameter, "AllowedValues"), []string{c.want})
			says := at(t, parameter, "ConstraintDescription").(string)
			if !strings.Contains(says, "--parameters Namespace="+c.want) {
				t.Errorf("%q does not say how to change it on purpose", says)
			}
			equal(t, "output", at(t, tpl["Outputs"], "DeployedNamespace", "Value"),
				values{"Ref": "Namespace"})
		})
	}
}
