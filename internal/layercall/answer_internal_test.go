package layercall

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
)

// FuzzResults reads any answer of a function. A record that the second decoder, that of the event source,
// finds among the failed ones does not complete, a list that it can't read fails the call, and no delay
// exceeds its bound. Read as an error, the answer completes nothing.
func FuzzResults(f *testing.F) {
	const id = `{"itemIdentifier":{"partition":"t-0","offset":%d}%s}`
	for _, more := range []string{
		``, `,"permanent":true,"error":"no"`, `,"retryAfterMs":3600000`, `,"retryAfterMs":-9223372036855`,
		`,"retryAfterMs":9223372036854775807`, `,"retryAfterMs":1e3`,
		`,"unavailable":true,"retryAfterMs":5000`, `,"unavailable":true,"permanent":true`,
	} {
		f.Add([]byte(`{"batchItemFailures":[` + fmt.Sprintf(id, 1, more) + `]}`))
	}
	f.Add([]byte(`{"batchItemFailures":[` + fmt.Sprintf(id, 1, "") + `],"idemskResults":[` +
		fmt.Sprintf(id, 0, `,"result":{"a":1}`) + `]}`))
	f.Add([]byte(`{"batchItemFailures":[` + fmt.Sprintf(id, 1, "") + `],"batchItemFailures":[]}`))
	f.Add([]byte(`{"errorType":"com.example.App$UnavailableException","errorMessage":"retry after 30s"}`))
	f.Add([]byte(`"ok"`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, payload []byte) {
		rs := []kafka.RecordAttempt{{Record: &kafka.Record{Topic: "t"}},
			{Record: &kafka.Record{Topic: "t", Offset: 1}}}
		if err := FunctionError("", payload); err == nil || idem.RetryDelay(err) < 0 ||
			idem.RetryDelay(err) > 24*time.Hour {
			t.Fatalf("the error %s: %v", payload, err)
		}
		out, err := results(rs, payload)
		if err == nil && len(out) != len(rs) {
			t.Fatalf("%d results of %d records", len(out), len(rs))
		}
		failed, listed, wrong := mskevent.Failures(payload,
			func(p mskevent.Place) bool { return p.Partition == "t-0" && (p.Offset == 0 || p.Offset == 1) })
		if listed && wrong != nil && err == nil {
			t.Errorf("%s is taken; the event source reads %v", payload, wrong)
		}
		for i, r := range out {
			if r.Err == nil && failed[placeOf(rs[i].Record)] {
				t.Errorf("%s completes %d; the event source reads %v", payload, i, failed)
			}
			if after := idem.RetryDelay(r.Err); after < 0 || after > 24*time.Hour {
				t.Errorf("%s: a delay of %v", payload, after)
			}
		}
	})
}

// Only the list of failures can fail a record. All other fields are the function's own, or optional: what of
// them can't be read fails nothing.
func TestOtherFieldsOfAnAnswerFailNothing(t *testing.T) {
	const id = `{"partition":"t-0","offset":%d}`
	item := func(offset int, more string) string {
		return fmt.Sprintf(`{"itemIdentifier":`+id+`%s}`, offset,
			more)
	}
	rs := []kafka.RecordAttempt{{Record: &kafka.Record{Topic: "t"}},
		{Record: &kafka.Record{Topic: "t", Offset: 1}}}
	for fields, want := range map[string]string{
		`"results":["booked"],"error":{"code":0},"retryAfterMs":"no"`: `"" ""`,
		`"results":3,"permanent":[]`:                                  `"" ""`,
		`"idemskResults":3`:                                           `"" ""`,
		`"idemskResults":[3,{},{"itemIdentifier":{"partition":"t-0"},"result":1},` + item(9, `,"result":1`) +
			`,` + item(1, `,"result":2`) + `]`: `"" "2"`,
	} {
		for _, list := range []string{``, `"batchItemFailures":[],`} {
			out, err := results(rs, []byte(`{`+list+fields+`}`))
			if err != nil {
				t.Fatalf("%s%s: %v", list, fields, err)
			}
			if got := fmt.Sprintf("%q %q", out[0].Value, out[1].Value); got != want || out[0].Err != nil ||
				out[1].Err != nil {
				t.Errorf("%s%s: values %s, errors %v, %v; want %s", list, fields, got, out[0].Err, out[1].Err,
					want)
			}
		}
	}
}

// docs/layer.md has a table of answers and of types of errors, which is checked here. Its answers are those
// to a call with the records payments-3@17 and @18.
func TestAnswersInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/layer.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| the function returns | the records of the call |")
	table, _, _ = strings.Cut(table, "\n\n")
	rs := []kafka.RecordAttempt{
		{Record: &kafka.Record{Topic: "payments", Partition: 3, Offset: 17}},
		{Record: &kafka.Record{Topic: "payments", Partition: 3, Offset: 18}},
	}
	meanings := map[string]string{
		"all complete": "complete complete",
		"those that it names are released for another attempt": "retry complete",
		"those that it names become dead letters":              "permanent complete",
		"those that it names are released, and the attempt":    "unavailable complete",
		"the call has failed |":                                "failed: retry",
		"the call has failed, and its effects may have":        "failed: unknown",
		"the call has failed; a record that is alone":          "failed: permanent",
		"all are released":                                     "failed: unavailable",
	}
	checked := 0
	for row := range strings.Lines(table) {
		cells := strings.SplitN(row, " | ", 2)
		for _, span := range regexp.MustCompile("`[^`]*`").FindAllString(cells[0], -1) {
			answer := strings.Trim(span, "`")
			out, err := results(rs, []byte(answer))
			if strings.HasPrefix(cells[0], "| an error of the type") {
				err = FunctionError("", fmt.Appendf(nil, `{"errorType":%q}`, answer))
			}
			got := "failed: "
			if err != nil {
				got += meaning(err)
			} else {
				got = meaning(out[0].Err) + " " + meaning(out[1].Err)
			}
			known := false
			for means, want := range meanings {
				if strings.HasPrefix(cells[1], means) {
					if known = true; got != want {
						t.Errorf("%s: %s; want %s, %s", span, got, means, want)
					}
				}
			}
			if checked++; !known {
				t.Errorf("%s: the test does not know the meaning %s", span, cells[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d answers are in the table", checked)
	}
}
