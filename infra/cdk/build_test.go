package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// The files that the properties do not name are what scripts/build.sh makes for the architecture and the store.
func TestBuiltFiles(t *testing.T) {
	python, amd64, redis := values{"runtime": "python3.13"}, values{"architecture": "x86_64"}, values{"store": "redis"}
	ledger, postgres := values{"example": "ledger"}, values{"store": "postgres"}
	outbox := func(p *consumer.Props) { p.Outbox = &consumer.Outbox{} }
	maintenance := func(p *consumer.Props) { p.Maintenance = &consumer.Maintenance{} }
	for _, c := range []struct {
		want   string
		given  []values
		change func(p *consumer.Props)
	}{
		{"", nil, nil},
		{"handler-arm64", []values{ledger}, nil},
		{"handler-amd64", []values{ledger, amd64}, nil},
		{"handler-arm64-redis", []values{ledger, redis}, nil},
		{"handler-arm64-postgres", []values{ledger, postgres}, nil},
		{"idemsk-layer-arm64.zip", []values{python}, nil},
		{"idemsk-layer-x86_64.zip", []values{python, amd64}, nil},
		{"idemsk-layer-arm64-redis.zip", []values{python, redis}, nil},
		{"idemsk-layer-x86_64-redis.zip", []values{python, redis, amd64}, nil},
		{"", []values{python}, func(p *consumer.Props) { p.Function.LayerZip = "my-layer.zip" }},
		{"relay-arm64", nil, outbox},
		{"relay-amd64", []values{amd64}, outbox},
		{"maintenance-arm64", nil, maintenance},
		{"maintenance-amd64", []values{amd64}, maintenance},
	} {
		context := values{}
		for _, given := range c.given {
			for name, value := range given {
				context[name] = value
			}
		}
		d, err := readContext(context)
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(&d.props)
		}
		equal(t, fmt.Sprint(context), strings.Join(d.unnamed(), " "), c.want)
	}
}

// What is deployed is built, and only when nothing else is wrong.
func TestBuildBeforeCheck(t *testing.T) {
	const makes = `for name in "${@:2}"; do mkdir -p ../../dist/$name; echo '#!/bin/sh' >../../dist/$name/bootstrap; done`
	for name, c := range map[string]struct {
		script, built, want string
		given               values
	}{
		"code of one's own": {makes, "", "<nil>", nil},
		"the example":       {makes, "only handler-arm64", "<nil>", values{"code": nil, "example": "ledger"}},
		"a build that fails": {"exit 3", "only handler-arm64", "building handler-arm64 failed (exit status 3): the messages are above",
			values{"code": nil, "example": "ledger"}},
		"another fault": {makes, "", `Function.Architecture is "arm": want one of arm64, x86_64 (context: architecture)`,
			values{"code": nil, "example": "ledger", "architecture": "arm"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := plain(t, c.given)
			root := t.TempDir()
			log, script := filepath.Join(root, "log"), filepath.Join(root, "scripts", "build.sh")
			for _, dir := range []string{"scripts", "infra/cdk"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o750); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(script, []byte("#!/bin/bash\necho \"$@\" >"+log+"\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Chdir(filepath.Join(root, "infra", "cdk"))
			d, err := readContext(given)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "the error", fmt.Sprint(d.buildAndCheck(t.Context())), c.want)
			built, _ := os.ReadFile(log) // missing if nothing was built
			equal(t, "what is built", strings.TrimSpace(string(built)), c.built)
		})
	}
}
