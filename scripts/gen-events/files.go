package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// generated returns the content of every committed file by its name: one JSON file a sample, and the README.
func generated() (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, s := range samples() {
		if _, taken := files[s.file()]; taken {
			return nil, fmt.Errorf("two samples are named %q: rename one", s.name)
		}
		data, err := pretty(s.event)
		if err != nil {
			return nil, fmt.Errorf("sample %s: %w", s.name, err)
		}
		files[s.file()] = data
	}
	text, err := readme(samples())
	if err != nil {
		return nil, err
	}
	files["README.md"] = text
	return files, nil
}

// write rewrites dir. It deletes nothing: a file that no sample writes any more is an error that names it.
func write(dir string, out io.Writer) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("no folder %s here, run this from the repository's root: %w", dir, err)
	}
	files, err := generated()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o600); err != nil {
			return err
		}
	}
	if err := check(dir); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d files in %s\n", len(files), dir)
	return err
}

// check reports every file of dir that is missing, differs or is an event of no sample.
func check(dir string) error {
	files, err := generated()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		got, err := fs.ReadFile(os.DirFS(dir), name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("%s is missing: run `go run ./scripts/gen-events`", path))
		case err != nil:
			errs = append(errs, err)
		case !bytes.Equal(got, files[name]):
			errs = append(errs, fmt.Errorf("%s is not what its sample writes: change the sample, then run `go run ./scripts/gen-events`", path))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, e := range entries {
		if _, ours := files[e.Name()]; !ours && filepath.Ext(e.Name()) == ".json" {
			errs = append(errs, fmt.Errorf("%s belongs to no sample: add one, or delete the file", filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
