package consumer

import (
	"archive/zip"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

func (c *checker) code(p *Props) {
	oneOf(c, "Architecture", p.Architecture, ARM64, X8664)
	if p.wrapped() {
		c.wrappedFunction(p)
		return
	}
	c.program("CodeDir", p.CodeDir, "function", "dist/handler-arm64")
	for _, given := range []struct{ prop, value string }{{"Handler", p.Handler}, {"LayerZip", p.LayerZip}} {
		if given.value != "" {
			c.fail(given.prop, given.value,
				"none with Runtime %s, or another Runtime: it is of functions behind the layer",
				ProvidedAL2023)
		}
	}
}

// program checks the directory of a function's program.
func (c *checker) program(prop, dir, whose, example string) {
	bootstrap := filepath.Join(dir, "bootstrap")
	info, err := os.Stat(bootstrap)
	switch {
	case dir == "":
		c.fail(prop, "", "the directory of the %s's bootstrap: %s after `make build`", whose, example)
	case err != nil:
		c.fail(prop, dir, "a directory with the %s's program, but there is no %s: run `make build`", whose,
			bootstrap)
	case !info.Mode().IsRegular():
		c.fail(prop, dir, "a directory with the %s's program, but %s is no file: run `make build`", whose,
			bootstrap)
	}
}

// The runtimes that support wrapper scripts, and the form of a handler in Lambda's API.
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html
// https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html
var (
	wrappable = regexp.MustCompile(`^(python3\.\d+|nodejs\d+\.x|java\d+(\.al2)?|dotnet\d+|ruby\d+\.\d+)$`)
	handler   = regexp.MustCompile(`^\S{1,128}$`)
)

// wrappedFunction checks a function behind the layer.
func (c *checker) wrappedFunction(p *Props) {
	if !wrappable.MatchString(p.Runtime) {
		c.fail("Runtime", p.Runtime, "%s, or one of Python, Node.js, Java, .NET or Ruby, like python3.13",
			ProvidedAL2023)
		return
	}
	switch _, err := os.Stat(p.CodeDir); {
	case p.CodeDir == "":
		c.fail("CodeDir", "", "the directory of the function's code, or its .zip or .jar file")
	case err != nil:
		c.fail("CodeDir", p.CodeDir, "the directory of the function's code, or its .zip or .jar file, which must exist")
	}
	c.form("Handler", p.Handler, handler,
		"the function's handler as Runtime takes it, like app.handler: up to 128 characters without blanks")
	c.layer(p)
	none := func(prop string, given bool, value any, why string) {
		if given {
			c.fail(prop, value, "none with Runtime %s: %s", p.Runtime, why)
		}
	}
	none("Order", p.Order != "", p.Order, "the layer passes records on in the order of their partitions")
	none("Concurrency", p.Concurrency != 0, p.Concurrency, "the layer passes many records on in one call")
	none("Outbox", p.Outbox != nil, "set", "handlers publish by the library, in its transactions")
}

// layer checks the layer's file. A layer of another architecture would fail at the function's first start.
func (c *checker) layer(p *Props) {
	usual := "dist/idemsk-layer-" + string(p.Architecture)
	if p.Store != StoreDynamoDB {
		usual += "-" + string(p.Store)
	}
	switch got, err := layerArchitecture(p.LayerZip); {
	case p.LayerZip == "":
		c.fail("LayerZip", "", "the file of the layer: %s.zip after `make build`", usual)
	case err != nil:
		c.fail("LayerZip", p.LayerZip, "the file of the layer, %s.zip after `make build`: %v", usual, err)
	case got != p.Architecture && c.sound("Architecture"):
		c.fail("LayerZip", p.LayerZip, "the layer for Architecture %s, %s.zip: this one is for %s",
			p.Architecture, usual, got)
	}
}

// layerArchitecture returns the architecture of the program in a layer's file.
func layerArchitecture(file string) (Architecture, error) {
	const program = "bin/idemsk-layer"
	layer, err := zip.OpenReader(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = layer.Close() }() // it was only read
	f, err := layer.Open(program)
	if err != nil {
		return "", fmt.Errorf("it has no %s", program)
	}
	defer func() { _ = f.Close() }() // likewise
	var head struct {                // of ELF
		Ident         [16]byte
		Type, Machine uint16
	}
	if err := binary.Read(f, binary.LittleEndian, &head); err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	switch elf.Machine(head.Machine) { //nolint:exhaustive // Lambda has these two
	case elf.EM_AARCH64:
		return ARM64, nil
	case elf.EM_X86_64:
		return X8664, nil
	}
	return "", fmt.Errorf("%s is no program for Linux on arm64 or x86_64", program)
}
