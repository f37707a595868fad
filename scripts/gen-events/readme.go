package main

import (
	"bytes"
	_ "embed"
	"text/template"
)

//go:embed readme.md.tmpl
var readmeText string

// readme renders events/README.md.
func readme(all []sample) ([]byte, error) {
	t, err := template.New("readme.md.tmpl").Parse(readmeText)
	if err != nil {
		return nil, err
	}
	type row struct{ File, Shows, Settles string }
	rows := make([]row, 0, len(all))
	for _, s := range all {
		rows = append(rows, row{s.file(), s.shows, s.settles})
	}
	var b bytes.Buffer
	if err := t.Execute(&b, rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
