// Package terraform_test evaluates the module in deploy/terraform, without Terraform and its providers, and
// compares its resources with the construct's template.
package terraform_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

const folder = "../../deploy/terraform"

type values = map[string]any

// module has the evaluated resources by address, and the names of the variables.
type module struct {
	*testing.T
	context   *hcl.EvalContext
	resources map[string]values
	variables []string
	// by variable
	types       map[string]string
	validations map[string][]hcl.Expression // their conditions
}

// references are the attributes of resources that others use. Their values are what the construct has there.
func references() map[string]cty.Value {
	of := func(attributes map[string]string) cty.Value {
		all := make(map[string]cty.Value)
		for name, value := range attributes {
			all[name] = cty.StringVal(value)
		}
		return cty.ObjectVal(all)
	}
	one := func(name string, resource cty.Value) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{name: resource})
	}
	return map[string]cty.Value{
		"aws_dynamodb_table": one("keys", of(map[string]string{"name": "ConsumerTable", "arn": "ConsumerTable.Arn"})),
		"aws_sqs_queue": one("dead_letters", of(map[string]string{"url": "ConsumerDeadLetters",
			"arn": "ConsumerDeadLetters.Arn", "name": "ConsumerDeadLetters.QueueName"})),
		// the ARN of CloudFormation ends in :*
		"aws_cloudwatch_log_group": one("function", of(map[string]string{"name": "ConsumerLogs", "arn": "ConsumerLogs"})),
		"aws_iam_role":             one("function", of(map[string]string{"name": "ConsumerRole", "arn": "ConsumerRole.Arn"})),
		"aws_lambda_function": one("consumer", of(map[string]string{"function_name": "ConsumerFunction",
			"version": "ConsumerFunctionCurrentVersion.Version"})),
		"aws_lambda_alias": one("live", of(map[string]string{"arn": "ConsumerAlias"})),
	}
}

// functions are those that the module calls.
func functions() map[string]function.Function {
	hash := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0], nil },
	})
	return map[string]function.Function{
		"ceil": stdlib.CeilFunc, "max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "coalesce": stdlib.CoalesceFunc,
		"floor": stdlib.FloorFunc, "contains": stdlib.ContainsFunc, "replace": stdlib.ReplaceFunc, "jsonencode": stdlib.JSONEncodeFunc, "filebase64sha256": hash,
	}
}

// evaluate evaluates the module with the given variables, and the defaults of the others.
func evaluate(t *testing.T, given map[string]string) *module {
	t.Helper()
	m := &module{T: t, resources: make(map[string]values), types: make(map[string]string),
		validations: make(map[string][]hcl.Expression),
		context:     &hcl.EvalContext{Variables: references(), Functions: functions()}}
	files, err := filepath.Glob(folder + "/*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no module: %v", folder, err)
	}
	blocks := make(map[string][]*hclsyntax.Block)
	parser := hclparse.NewParser()
	for _, file := range files {
		parsed, problems := parser.ParseHCLFile(file)
		m.must(problems)
		for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
			blocks[block.Type] = append(blocks[block.Type], block)
		}
	}
	m.setVariables(blocks["variable"], given)
	m.setLocals(blocks["locals"])
	for _, block := range blocks["resource"] {
		m.evaluateResource(block)
	}
	return m
}

func (m *module) must(problems hcl.Diagnostics) {
	m.Helper()
	if problems.HasErrors() {
		m.Fatal(problems)
	}
}

func (m *module) value(expr hcl.Expression) cty.Value {
	m.Helper()
	value, problems := expr.Value(m.context)
	m.must(problems)
	return value
}

func (m *module) setVariables(blocks []*hclsyntax.Block, given map[string]string) {
	m.Helper()
	all := make(map[string]cty.Value)
	for _, block := range blocks {
		name := block.Labels[0]
		m.variables = append(m.variables, name)
		m.types[name] = hcl.ExprAsKeyword(block.Body.Attributes["type"].Expr)
		for _, validation := range block.Body.Blocks {
			m.validations[name] = append(m.validations[name], validation.Body.Attributes["condition"].Expr)
		}
		if value, ok := given[name]; ok {
			all[name] = cty.StringVal(value)
		} else if byDefault := block.Body.Attributes["default"]; byDefault != nil {
			all[name] = m.value(byDefault.Expr)
		} else {
			m.Fatalf("the variable %s has no default, and the test none for it", name)
		}
	}
	m.context.Variables["var"] = cty.ObjectVal(all)
}

// setLocals evaluates the locals, each when all that it uses is known.
func (m *module) setLocals(blocks []*hclsyntax.Block) {
	m.Helper()
	known, waiting := make(map[string]cty.Value), make(map[string]hcl.Expression)
	for _, block := range blocks {
		for name, attribute := range block.Body.Attributes {
			waiting[name] = attribute.Expr
		}
	}
	for range len(waiting) {
		m.context.Variables["local"] = cty.ObjectVal(known)
		for name, expr := range waiting {
			if value, problems := expr.Value(m.context); !problems.HasErrors() {
				known[name] = value
				delete(waiting, name)
			}
		}
	}
	m.context.Variables["local"] = cty.ObjectVal(known)
	for _, expr := range waiting {
		m.value(expr) // reports why
	}
}

// evaluateResource evaluates a resource, or each one of for_each.
func (m *module) evaluateResource(block *hclsyntax.Block) {
	m.Helper()
	address := block.Labels[0] + "." + block.Labels[1]
	each := block.Body.Attributes["for_each"]
	if each == nil {
		m.resources[address] = m.body(block.Body)
		return
	}
	for key, value := range m.value(each.Expr).AsValueMap() {
		m.context.Variables["each"] = cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(key), "value": value})
		m.resources[address+"."+key] = m.body(block.Body)
	}
}

// body returns the attributes of a block, and its blocks, which each type occurs once of.
func (m *module) body(body *hclsyntax.Body) values {
	m.Helper()
	all := make(values)
	for name, attribute := range body.Attributes {
		if name == "depends_on" || name == "for_each" {
			continue
		}
		value := m.value(attribute.Expr)
		text, err := ctyjson.Marshal(value, value.Type())
		if err == nil {
			var decoded any
			err = json.Unmarshal(text, &decoded)
			all[name] = decoded
		}
		if err != nil {
			m.Fatalf("%s: %v", name, err)
		}
	}
	for _, block := range body.Blocks {
		all[block.Type] = m.body(block.Body)
	}
	return all
}

// addresses returns the addresses of the resources.
func (m *module) addresses() []string { return slices.Sorted(maps.Keys(m.resources)) }
