// Package reconcile compares the keys of a store with an export of business records.
package reconcile

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/idemsk/idemsk/internal/text/textfile"
)

// Row is a business record of an export.
type Row struct {
	Key  string `json:"key"`
	Line int    `json:"line"` // from 1
}

// maxLine is the maximum length in bytes of a line of JSON.
const maxLine = 16 << 20

// Export is a file with business records.
type Export struct {
	io.Closer
	Name    string // a path, or s3://BUCKET/KEY
	Written time.Time
	Rows    iter.Seq2[Row, error]
}

// OpenFile opens an export, as ReadExport reads it.
func OpenFile(path, field string) (*Export, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Export{Closer: file, Name: path, Written: info.ModTime(), Rows: ReadExport(path, file, field)},
		nil
}

// Bounds returns the bounds of the completion times of the keys that must be in the export, if it has the
// records of the time covers until lag before it was written. An export that was written before the time that
// it covers is an error: nothing writes new ones.
func (e *Export) Bounds(covers, lag time.Duration, now time.Time) (from, to time.Time, err error) {
	if age := now.Sub(e.Written); age > covers {
		return from, to, fmt.Errorf("%s was written %v ago, and an export covers %v: is there no newer one? Check the job that writes it",
			e.Name, age.Round(time.Second), covers)
	}
	return e.Written.Add(-covers), e.Written.Add(-lag), nil
}

// ReadExport yields the rows of an export: CSV with a header line, or JSON lines, depending on the file name.
// field is the name of the column or member with the key.
func ReadExport(name string, file io.Reader, field string) iter.Seq2[Row, error] {
	rows := formatOf(name)
	if rows == nil {
		rows = unknownFormat
	}
	return func(yield func(Row, error) bool) {
		for row, err := range rows(textfile.New(file), field) {
			if err != nil {
				yield(Row{}, fmt.Errorf("%s: %w", name, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// formatOf returns the reader of the format that a name tells, or nil.
func formatOf(name string) func(io.Reader, string) iter.Seq2[Row, error] {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return readCSV
	case ".jsonl", ".ndjson":
		return readJSONLines
	}
	return nil
}

func unknownFormat(io.Reader, string) iter.Seq2[Row, error] {
	return failed(errors.New("its name must end in .csv or .jsonl"))
}

func failed(err error) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) { yield(Row{}, err) }
}

func readCSV(file io.Reader, field string) iter.Seq2[Row, error] {
	r := csv.NewReader(file)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return failed(fmt.Errorf("it has no header line: %w", err))
	}
	column := -1
	for i, name := range header {
		if name == field {
			column = i
		}
	}
	if column < 0 {
		return failed(fmt.Errorf("it has no column %q; it has %q: name another column", field, header))
	}
	return func(yield func(Row, error) bool) {
		for {
			cells, err := r.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			row := Row{}
			if err == nil {
				row.Line, _ = r.FieldPos(column)
				row.Key = strings.Clone(cells[column]) // a cell keeps the text of its whole row in memory
				err = row.check(field)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func readJSONLines(file io.Reader, field string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, maxLine)
		n := 0
		for lines.Scan() {
			n++
			if strings.TrimSpace(lines.Text()) == "" {
				continue
			}
			row, err := parseLine(lines.Bytes(), field, n)
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Row{}, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

func parseLine(line []byte, field string, n int) (Row, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return Row{}, fmt.Errorf("line %d is not a JSON object: %w", n, err)
	}
	row := Row{Line: n}
	value, ok := members[field]
	if !ok {
		return row, row.check(field)
	}
	var number json.Number // as it is written: so it is a key of IDEMSK_KEY=json:…
	if err := json.Unmarshal(value, &row.Key); err != nil {
		if json.Unmarshal(value, &number) != nil {
			return row, fmt.Errorf("line %d: %q is neither a string nor a number", n, field)
		}
		row.Key = number.String()
	}
	return row, row.check(field)
}

func (r Row) check(field string) error {
	if r.Key == "" {
		return fmt.Errorf("line %d has no %q", r.Line, field)
	}
	return nil
}
