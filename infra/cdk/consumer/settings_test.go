package consumer

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A tag that names nothing would check nothing. A property of Idempotency has the name of its variable.
func TestTagsOfProperties(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := Props{Source: Source{SchemaRegistry: &SchemaRegistry{}}, Outbox: &Outbox{}, Maintenance: &Maintenance{}}
	needs := p.needs()
	known := regexp.MustCompile(`^(?:(?:default|range|unit|words|form|most|required|needs|env|readers|zero|unset):"[^"]+" ?)+$`)
	for _, s := range p.settings() {
		form, need, variable := s.tag.Get("form"), s.tag.Get("needs"), s.tag.Get("env")
		group, name, _ := strings.Cut(s.property, ".")
		switch {
		case !known.MatchString(string(s.tag)):
			t.Errorf("%s: settings.go does not explain a tag in %s", s.property, s.tag)
		case form != "" && forms[form].valid == nil:
			t.Errorf("%s: there is no form %s", s.property, form)
		case need != "" && needs[need].want == "":
			t.Errorf("%s: there is no need %s", s.property, need)
		case !strings.Contains(string(manual), "| `"+variable):
			t.Errorf("%s: docs/configuration.md does not explain %s", s.property, variable)
		case group == "Idempotency" && variable !=
			"IDEMSK"+strings.ToUpper(regexp.MustCompile(`[A-Z]`).ReplaceAllString(name, "_$0")):
			t.Errorf("%s: the variable is %s", s.property, variable)
		}
	}
}
