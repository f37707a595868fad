package consumer

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func (c *checker) code() {
	f := &c.Function
	switch {
	case !c.wrapped():
		c.program("Function.Code", f.Code, "function", ".")
	case c.sound("Function.Runtime"):
		const want = "the directory of the function's code, or its .zip or .jar file"
		if _, err := os.Stat(f.Code); f.Code == "" {
			c.fail("Function.Code", "", want)
		} else if err != nil {
			c.fail("Function.Code", f.Code, want+", which must exist")
		}
		c.layer()
		if c.Outbox != nil {
			c.fail("Outbox", "set", "none with Function.Runtime %s: handlers publish by the library, in its transactions",
				f.Runtime)
		}
	}
}

// bootstrap is the name of a program that Lambda runs.
const bootstrap = "bootstrap"

// program checks the directory or the .zip file of a function's program. The error for a missing one has the
// command that builds the package.
func (c *checker) program(prop, code, whose, pkg string) {
	if code == "" {
		c.fail(prop, "", "the directory or the .zip file of the %s's program, which is named bootstrap", whose)
		return
	}
	goarch := "arm64"
	if c.Function.Architecture == X8664 {
		goarch = "amd64"
	}
	got, err := programArchitecture(code)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := code
		if filepath.Ext(code) == ".zip" {
			dir = "DIR"
		}
		c.fail(prop, code, "the directory or the .zip file of the %s's program, but it has no file bootstrap: build it with "+
			"GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -tags lambda.norpc -o %s %s",
			whose, goarch, filepath.Join(dir, bootstrap), pkg)
	case err != nil:
		c.fail(prop, code, "the directory or the .zip file of the %s's program: %s", whose, err)
	case got != "" && got != c.Function.Architecture && c.sound("Function.Architecture"):
		c.fail(prop, code, "a program for Function.Architecture %s: bootstrap is for %s; build it with GOARCH=%s",
			c.Function.Architecture, got, goarch)
	}
}

// programArchitecture returns the architecture of the program in a directory or in a .zip file, "" for a
// script.
func programArchitecture(code string) (Architecture, error) {
	if filepath.Ext(code) == ".zip" {
		return zippedArchitecture(code, bootstrap)
	}
	file, err := os.Open(filepath.Join(code, bootstrap)) //nolint:gosec // the caller's own file
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("bootstrap is no file")
	}
	if err != nil {
		return "", err
	}
	return architectureOf(file, bootstrap)
}

// layer checks the layer's file. A layer of another architecture would fail at the function's first start.
func (c *checker) layer() {
	f := &c.Function
	usual := "dist/idemsk-layer-" + string(f.Architecture)
	if c.Store.Type != StoreDynamoDB {
		usual += "-" + string(c.Store.Type)
	}
	switch got, err := zippedArchitecture(f.LayerZip, layerProgram); {
	case f.LayerZip == "":
		c.fail("Function.LayerZip", "", "the file of the layer: %s.zip after `make build`", usual)
	case err == nil && got == "":
		c.fail("Function.LayerZip", f.LayerZip, "the file of the layer, %s.zip after `make build`: %s is a script",
			usual, layerProgram)
	case err != nil:
		c.fail("Function.LayerZip", f.LayerZip, "the file of the layer, %s.zip after `make build`: %s", usual, err)
	case got != f.Architecture && c.sound("Function.Architecture"):
		c.fail("Function.LayerZip", f.LayerZip, "the layer for Function.Architecture %s, %s.zip: this one is for %s",
			f.Architecture, usual, got)
	}
}

const layerProgram = "bin/idemsk-layer"

// zippedArchitecture returns the architecture of a program in a .zip file.
func zippedArchitecture(file, program string) (Architecture, error) {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = archive.Close() }() // it was only read
	f, err := archive.Open(program)
	if err != nil {
		return "", &missing{program}
	}
	defer func() { _ = f.Close() }() // likewise
	return architectureOf(f, program)
}

// missing is the error for an archive without its program.
type missing struct{ program string }

func (e *missing) Error() string { return "it has no " + e.program }

func (e *missing) Is(target error) bool { return target == fs.ErrNotExist }

// architectureOf returns the architecture of a program for Linux, "" for a script.
func architectureOf(program io.Reader, name string) (Architecture, error) {
	var head struct { // of ELF
		Ident         [16]byte
		Type, Machine uint16
	}
	start := make([]byte, binary.Size(head))
	n, err := io.ReadFull(program, start)
	switch {
	case bytes.HasPrefix(start, []byte("#!")):
		return "", nil
	case n < len(start):
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if _, err := binary.Decode(start, binary.LittleEndian, &head); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if bytes.HasPrefix(start, []byte(elf.ELFMAG)) {
		switch elf.Machine(head.Machine) { //nolint:exhaustive // Lambda has these two
		case elf.EM_AARCH64:
			return ARM64, nil
		case elf.EM_X86_64:
			return X8664, nil
		}
	}
	return "", fmt.Errorf("%s is no program for Linux on arm64 or x86_64", name)
}
