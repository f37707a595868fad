package consumer_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// layerZip is a layer whose program is the header of an ELF file for arm64, and more.
func layerZip(t *testing.T, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "layer.zip")
	var file bytes.Buffer
	layer := zip.NewWriter(&file)
	program, err := layer.Create("bin/idemsk-layer")
	if err == nil {
		_, err = io.WriteString(program, "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\xb7\x00"+more)
	}
	if err = errors.Join(err, layer.Close()); err == nil {
		err = os.WriteFile(path, file.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// behindLayer makes it a function in another language.
func behindLayer(t *testing.T, runtime, handler string) change {
	t.Helper()
	code, layer := t.TempDir(), layerZip(t, "")
	if err := os.WriteFile(filepath.Join(code, "app"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(p *props) {
		p.Function.Runtime = runtime
		p.Function.Handler = handler
		p.Function.Code = code
		p.Function.LayerZip = layer
	}
}

// A function in another language has another function, and the layer. Everything else, the role with its
// permissions above all, is that of a function in Go.
func TestTemplatesOfFunctionsInOtherLanguages(t *testing.T) {
	from := synthesise(t, plain(t))
	for name, runtime := range map[string]string{"python": "python3.13", "nodejs": "nodejs22.x"} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, behindLayer(t, runtime, "app.handler")))
			snapshot(t, name, changed(t, tpl, from))
			config(t, tpl)
		})
	}
}

func TestRuntimesBehindTheLayer(t *testing.T) {
	for runtime, handler := range map[string]string{
		"python3.13": "app.handler", "nodejs22.x": "app.handler", "java21": "com.example.App::handler",
		"dotnet8": "Payments::Payments.Function::Handler",
		"ruby3.4": "app.handler",
	} {
		t.Run(runtime, func(t *testing.T) {
			tpl := synthesise(t, plain(t, behindLayer(t, runtime, handler), func(p *props) {
				p.Function.Architecture = consumer.ARM64
				p.Function.Environment = map[string]string{"BANK_URL": "https://bank.example"}
			}))
			f := tpl.one(t, function)
			equal(t, "runtime", f["Runtime"], runtime)
			equal(t, "handler", f["Handler"], handler)
			equal(t, "layers", f["Layers"], []any{tpl.ref(t, "ConsumerLayer")})
			equal(t, "the layer's architecture",
				tpl.one(t, "AWS::Lambda::LayerVersion")["CompatibleArchitectures"], []string{"arm64"})
			env := variables(t, tpl)
			equal(t, "wrapper", env["AWS_LAMBDA_EXEC_WRAPPER"], "/opt/idemsk")
			equal(t, "a variable of its own", env["BANK_URL"], "https://bank.example")
			equal(t, "records in a call", env["IDEMSK_CALL_RECORDS"], "1")
			equal(t, "what the layer does not read", env["IDEMSK_CONCURRENCY"], nil)
			// the example's ledger is that of the function in Go
			equal(t, "tables", len(tpl.of(globalTable)), 1)
		})
	}
}

// A version of the function has the layer that there was when it was published. So another layer must publish
// another version.
func TestAnotherLayerPublishesAnotherVersion(t *testing.T) {
	given := behindLayer(t, "python3.13", "app.handler")
	version := func(layer string) string {
		changed := plain(t, given, func(p *props) { p.Function.LayerZip = layer })
		for id := range synthesise(t, changed).of("AWS::Lambda::Version") {
			return id
		}
		t.Fatal("there is no version")
		return ""
	}
	one, again, other := version(layerZip(t, "1")), version(layerZip(t, "1")), version(layerZip(t, "2"))
	if one != again || one == other {
		t.Errorf("the versions are %s, with the same layer %s, with another layer %s", one, again, other)
	}
}

// The template for SAM and the snippets for Terraform and the CDK set what the construct sets, and nothing
// that does not exist.
func TestSnippetsInTheDocumentOfTheLayer(t *testing.T) {
	const document = "layer.md"
	theirs := synthesise(t, plain(t, behindLayer(t, "python3.13", "app.handler")))
	sam, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "sam", "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tpl := included(t, string(sam))
	ours, construct := tpl.one(t, "AWS::Serverless::Function"), theirs.one(t, function)
	for _, property := range []string{"Runtime", "Architectures", "Handler", "Timeout"} {
		equal(t, property, ours[property], construct[property])
	}
	equal(t, "Layers", ours["Layers"], []any{values{"Ref": "Layer"}})
	equal(t, "CompatibleArchitectures", tpl.one(t, "AWS::Serverless::LayerVersion")["CompatibleArchitectures"],
		ours["Architectures"])
	env := variables(t, theirs)
	for name, value := range at(t, ours, "Environment", "Variables").(values) {
		if _, isRef := value.(values); isRef {
			value = env[name] // of another resource
		}
		equal(t, name, value, env[name])
		equal(t, name+" is a variable of the construct", env[name] != nil, true)
	}

	call, err := parser.ParseExpr(block(t, document, "go"))
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	ast.Inspect(call.(*ast.CallExpr).Args[2], func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			fields++
			name := pair.Key.(*ast.Ident).Name
			equal(t, "consumer has the field "+name, slices.ContainsFunc(properties(reflect.TypeFor[consumer.Props](), ""),
				func(path string) bool { return strings.Contains("."+path+".", "."+name+".") }), true)
		}
		return true
	})
	equal(t, "fields", fields > 5, true)
	for _, language := range []string{"hcl", "typescript"} {
		for _, want := range []string{"dist/idemsk-layer-arm64.zip", text(env["AWS_LAMBDA_EXEC_WRAPPER"])} {
			if !strings.Contains(block(t, document, language), want) {
				t.Errorf("the block of %s has no %s", language, want)
			}
		}
	}
}

// properties returns the paths of the properties of a group and of those within.
func properties(group reflect.Type, path string) (all []string) {
	for _, field := range reflect.VisibleFields(group) {
		of := field.Type
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		all = append(all, path+field.Name)
		if of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[consumer.Props]().PkgPath() {
			all = append(all[:len(all)-1], properties(of, path+field.Name+".")...)
		}
	}
	return all
}
