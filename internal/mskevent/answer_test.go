package mskevent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// The rules of AWS for a partial batch response; see docs/local.md.
func TestAnswers(t *testing.T) {
	t.Parallel()
	has := func(p mskevent.Place) bool { return p.Partition == "a-b-1" && p.Offset >= 5 && p.Offset <= 9 }
	item := func(id string) string { return `{"batchItemFailures":[{"itemIdentifier":` + id + `}]}` }
	for answer, want := range map[string]string{
		"": "", "null\n": "", "{}": "", "[]": "", `""`: "", `{"batchItemFailures":[]}`: "",
		`{"batchItemFailures":null}`: "", `{"statusCode":200}`: "",
		item(`{"partition":"a-b-1","offset":7}`): "a-b-1@7",
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"a-b-1","offset":5}},{"itemIdentifier":{"offset":5,"partition":"a-b-1"}}]}`: "a-b-1@5",
	} {
		failed, _, err := mskevent.Failures([]byte(answer), has)
		var got []string
		for place := range failed {
			got = append(got, place.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %q", answer, got, err, want)
		}
	}
	for answer, says := range map[string]string{
		"ok":                          "is no partial batch response",
		`"ok"`:                        "is no partial batch response",
		`[1]`:                         "is no partial batch response",
		`{"batchItemFailures":[]} x`:  "is no partial batch response",
		`{"batchItemFailures":{}}`:    "no list of objects",
		`{"batchItemFailures":[1]}`:   "no list of objects",
		`{"batchItemFailures":[{}]}`:  "there is no itemIdentifier",
		item(`null`):                  "missing",
		item(`""`):                    "bad identifier",
		item(`"a-b-1@7"`):             "bad identifier",
		item(`{"partition":"a-b-1"}`): "missing",
		item(`{"partition":"a-b-1","offset":"7"}`):                        "bad identifier",
		item(`{"partition":"a-b-1","offset":7.5}`):                        "bad identifier",
		item(`{"partition":"a-b-1","offset":4}`):                          "names a record that was not in the event, in batchItemFailures[0]",
		item(`{"partition":"b-1","offset":7}`):                            "not in the event",
		item(`{"Partition":"a-b-1","Offset":7}`):                          "missing",
		item(`{"partition":"a-b-1","offset":7,"offset":7}`):               "offset is there twice",
		`{"batchItemFailures":[{"itemIdentifier":1,"itemIdentifier":2}]}`: "itemIdentifier is there twice",
	} {
		_, _, err := mskevent.Failures([]byte(answer), has)
		if wrong := (*mskevent.AnswerError)(nil); !errors.As(err, &wrong) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an AnswerError that says %q", answer, err, says)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(`{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":1}}]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		failed, _, err := mskevent.Failures([]byte(answer),
			func(p mskevent.Place) bool { return p.Offset == 1 })
		for place := range failed {
			if err != nil || place.Offset != 1 {
				t.Fatalf("%s: %v, %v", answer, failed, err)
			}
		}
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"batchItemFailures":[],"idemskOutcomes":[{"partition":"a-1","offset":7,"outcome":"Executed"}]}`: "Executed",
		`{"idemskOutcomes":[{"partition":"a-1","offset":8,"outcome":"Executed"}]}`:                        "",
		`{"idemskOutcomes":[{"messageId":"a-1@7","outcome":"Executed"}]}`:                                 "Executed",
		`{"idemskOutcomes":{}}`: "", `{"idemskOutcomes":[1]}`: "", `{}`: "", `null`: "", ``: "",
		`"Executed"`: "",
	} {
		if got := mskevent.Outcomes([]byte(answer))["a-1@7"]; got != want {
			t.Errorf("%s: %q; want %q", answer, got, want)
		}
	}
}

// An empty list is distinguished from a missing list.
func TestAnswerWithoutAList(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"": false, "null": false, "{}": false,
		`{"statusCode":200}`: false, `{"batchItemFailures":[]}`: true} {
		if _, listed, err := mskevent.Failures([]byte(answer), nil); listed != want || err != nil {
			t.Errorf("%s: listed %v, %v", answer, listed, err)
		}
	}
}
