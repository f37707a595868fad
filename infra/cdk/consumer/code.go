package consumer

import (
	"archive/zip"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

func (c *checker) code() {
	f := &c.Function
	switch {
	case !c.wrapped():
		c.program("Function.CodeDir", f.CodeDir, "function", "dist/handler-arm64")
	case c.sound("Function.Runtime"):
		const want = "the directory of the function's code, or its .zip or .jar file"
		if _, err := os.Stat(f.CodeDir); f.CodeDir == "" {
			c.fail("Function.CodeDir", "", want)
		} else if err != nil {
			c.fail("Function.CodeDir", f.CodeDir, want+", which must exist")
		}
		c.layer()
		if c.Outbox != nil {
			c.fail("Outbox", "set", "none with Function.Runtime %s: handlers publish by the library, in its transactions",
				f.Runtime)
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

// layer checks the layer's file. A layer of another architecture would fail at the function's first start.
func (c *checker) layer() {
	f := &c.Function
	usual := "dist/idemsk-layer-" + string(f.Architecture)
	if c.Store.Type != StoreDynamoDB {
		usual += "-" + string(c.Store.Type)
	}
	switch got, err := layerArchitecture(f.LayerZip); {
	case f.LayerZip == "":
		c.fail("Function.LayerZip", "", "the file of the layer: %s.zip after `make build`", usual)
	case err != nil:
		c.fail("Function.LayerZip", f.LayerZip, "the file of the layer, %s.zip after `make build`: %s", usual, err)
	case got != f.Architecture && c.sound("Function.Architecture"):
		c.fail("Function.LayerZip", f.LayerZip, "the layer for Function.Architecture %s, %s.zip: this one is for %s",
			f.Architecture, usual, got)
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
