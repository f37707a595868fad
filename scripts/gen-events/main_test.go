package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

const committed = "../../" + eventsDir

func TestCommittedIsGenerated(t *testing.T) {
	if err := check(committed); err != nil {
		t.Fatal(err)
	}
}

func TestCommittedFilesAreSmallPrettyJSON(t *testing.T) {
	const largest = 150_000 // bytes
	dir := os.DirFS(committed)
	names, err := fs.Glob(dir, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 16 {
		t.Fatalf("%d events in %s, want at least 16", len(names), committed)
	}
	for _, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > largest {
			t.Errorf("%s has %d bytes, at most %d belong in the repository", name, len(data), largest)
		}
		if !json.Valid(data) {
			t.Errorf("%s is not JSON", name)
			continue
		}
		if want, err := pretty(json.RawMessage(data)); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s is not in the pretty form (error %v)", name, err)
		}
	}
}

func TestSamplesAreDescribed(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, s := range samples() {
		if !kebab.MatchString(s.name) {
			t.Errorf("sample %q: the name is not in kebab case", s.name)
		}
		for column, text := range map[string]string{"shows": s.shows, "settles": s.settles} {
			if text == "" || strings.ContainsAny(text, "|\n") || strings.HasSuffix(text, ".") {
				t.Errorf("sample %s: %s = %q, want one cell of a Markdown table", s.name, column, text)
			}
		}
	}
}

// The README promises that the samples don't get in each other's way: their places and idempotency keys are their own.
func TestSamplesDoNotShareKeysOrPlaces(t *testing.T) {
	owner := make(map[string]string)
	claim := func(sample, what string) {
		family := strings.TrimSuffix(strings.TrimSuffix(sample, "-batches-1"), "-batches-2")
		if other, taken := owner[what]; taken && other != family {
			t.Errorf("%s is used by %s and %s", what, other, family)
		}
		owner[what] = family
	}
	for _, s := range append(samples(), sample{name: "near-6-mb", event: near6MBEvent("")}) {
		places := make(map[string]bool)
		for _, r := range records(s.event) {
			place := fmt.Sprintf("place %s-%d@%d", r.Topic, r.Partition, r.Offset)
			if places[place] {
				t.Errorf("%s has two records at %s", s.name, place)
			}
			places[place] = true
			claim(s.name, place)
			for _, key := range keysIn(r) {
				claim(s.name, "key "+key)
			}
		}
	}
}

// aws-lambda-go is the yardstick for the format: what it is meant to read, it reads, and it reads what was meant.
func TestAWSLambdaGoReadsTheSamples(t *testing.T) {
	beyondItsType := []string{"bad-header-byte", "value-not-a-string"}
	for _, s := range samples() {
		data, err := json.Marshal(s.event)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		var got events.KafkaEvent
		err = json.Unmarshal(data, &got)
		if slices.Contains(beyondItsType, s.name) {
			if err == nil {
				t.Errorf("%s decodes, though it is meant not to", s.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		for key, records := range got.Records {
			for _, r := range records {
				if want := fmt.Sprintf("%s-%d", r.Topic, r.Partition); key != want {
					t.Errorf("%s: a record of %s under %s", s.name, want, key)
				}
			}
		}
	}
}

func TestHeaderBytesAreSigned(t *testing.T) {
	value := make([]byte, 256)
	for i := range value {
		value[i] = byte(i)
	}
	var got []map[string]events.JSONNumberBytes
	if err := json.Unmarshal(headers(header{"h", value}), &got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[0]["h"], value) {
		t.Errorf("got % x, want % x", got[0]["h"], value)
	}
	if text := signedBytes([]byte{127, 128, 255}); text != "[127,-128,-1]" {
		t.Errorf("signedBytes = %s", text)
	}
}

func TestNullAndAbsentDiffer(t *testing.T) {
	r := pay("p", 1).at(0, 0)
	for name, with := range map[string]func(json.RawMessage) record{"key": r.withKey, "value": r.withValue, "headers": r.withHeaders} {
		for _, wantThere := range []bool{false, true} {
			var raw json.RawMessage
			if wantThere {
				raw = null()
			}
			data, err := json.Marshal(with(raw))
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				t.Fatal(err)
			}
			if content, there := fields[name]; there != wantThere || content != nil {
				t.Errorf("%s: there %v, want %v; content %v", name, there, wantThere, content)
			}
		}
	}
}

func TestPaymentsAreJSON(t *testing.T) {
	type business struct {
		PaymentID, Account, Currency, Simulate, Note string
		Amount                                       int64
	}
	p := pay("id", 1250).to("acc-7").simulating("retry:2").withNote("n")
	var got business
	if err := json.Unmarshal([]byte(p.value()), &got); err != nil {
		t.Fatal(err)
	}
	want := business{PaymentID: "id", Account: "acc-7", Currency: "EUR", Simulate: "retry:2", Note: "n", Amount: 1250}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNear6MB(t *testing.T) {
	data, err := near6MB()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) >= near6MBLimit || len(data) < near6MBLimit*99/100 {
		t.Errorf("%d bytes, want a hundredth below %d at most", len(data), near6MBLimit)
	}
	var got events.KafkaEvent
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, records := range got.Records {
		count += len(records)
	}
	if count != near6MBRecords {
		t.Errorf("%d records, want %d", count, near6MBRecords)
	}

	dir := t.TempDir()
	if err := run([]string{"-near-6mb", filepath.Join(dir, "events", "large.json")}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if written, err := fs.ReadFile(os.DirFS(dir), "events/large.json"); err != nil || !bytes.Equal(written, data) {
		t.Errorf("the file is not the event: %d bytes, error %v", len(written), err)
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := check(dir); err != nil {
		t.Fatalf("just written, and yet: %v", err)
	}
	edit(t, filepath.Join(dir, "one-record.json"), "{}\n")
	edit(t, filepath.Join(dir, "README.md"), "# Mine\n")
	edit(t, filepath.Join(dir, "unknown.json"), "{}\n")
	if err := os.Remove(filepath.Join(dir, "tombstone-null.json")); err != nil {
		t.Fatal(err)
	}
	err := check(dir)
	if err == nil {
		t.Fatal("check passes")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, want := range []string{"one-record.json is not what", "README.md is not what", "unknown.json belongs to no sample", "tombstone-null.json is missing"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("no line says %q in:\n%v", want, err)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d complaints, want 4:\n%v", len(lines), err)
	}
}

func TestWriteRestoresFilesAndNamesUnknownOnes(t *testing.T) {
	dir := t.TempDir()
	edit(t, filepath.Join(dir, "one-record.json"), "{}\n")
	edit(t, filepath.Join(dir, "unknown.json"), "{}\n")
	err := write(dir, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "unknown.json") || strings.Contains(err.Error(), "one-record.json") {
		t.Errorf("error %v, want one about unknown.json alone", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "unknown.json")); err != nil {
		t.Errorf("the unknown file was deleted: %v", err)
	}
}

func TestRunOutsideTheRootWritesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{nil, {"-check"}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("run(%q) without a folder %s succeeds", args, eventsDir)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestRunInTheRoot(t *testing.T) {
	t.Chdir("../..")
	if err := run([]string{"-check"}, io.Discard); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"-check", "events"}, {"-check", "-near-6mb", filepath.Join(t.TempDir(), "x.json")}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("run(%q) succeeds", args)
		}
	}
}

func records(e event) []record {
	var all []record
	for _, p := range e.Records {
		all = append(all, p.records...)
	}
	return all
}

// keysIn returns the record's idempotency keys; a header that can't be read is no key.
func keysIn(r record) []string {
	var hs []map[string]events.JSONNumberBytes
	if r.Headers == nil || json.Unmarshal(r.Headers, &hs) != nil {
		return nil
	}
	var keys []string
	for _, h := range hs {
		if key, there := h[keyHeader]; there {
			keys = append(keys, string(key))
		}
	}
	return keys
}

func edit(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
