package msk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/lambda/msk"
)

type amount struct {
	Cents int `json:"cents"`
}

// doubled is a function for msk.JSON whose calls are counted.
func doubled(calls *int) func(context.Context, amount, msk.Record) (amount, error) {
	return func(_ context.Context, a amount, _ msk.Record) (amount, error) {
		*calls++
		return amount{Cents: 2 * a.Cents}, nil
	}
}

func TestJSONHandlers(t *testing.T) {
	calls := 0
	h := msk.JSON(doubled(&calls))
	for name, tc := range map[string]struct {
		r    record
		want string
		says string
	}{
		"a value":      {r: record{value: `{"cents":21,"more":true}`}, want: `{"cents":42}`},
		"null as JSON": {r: record{value: `null`}, want: `{"cents":0}`},
		"no JSON": {r: record{value: `{"cents":`},
			says: "the value (9 bytes) is not JSON of msk_test.amount"},
		"of another type":       {r: record{value: `{"cents":"x"}`}, says: "cannot unmarshal string"},
		"nothing":               {r: record{}, says: "the value (0 bytes) is not JSON"},
		"more than one":         {r: record{value: `{} {}`}, says: "is not JSON"},
		"a tombstone":           {r: record{null: true}, says: "tombstone"},
		"a number out of range": {r: record{value: `{"cents":1e99}`}, says: "is not JSON of"},
	} {
		t.Run(name, func(t *testing.T) {
			calls = 0
			got, err := h(t.Context(), *one(t, tc.r))
			if tc.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "result", string(got), tc.want)
				equal(t, "calls", calls, 1)
				return
			}
			if err == nil {
				t.Fatalf("result %s; want an error", got)
			}
			equal(t, "permanent", idem.IsPermanent(err), true)
			equal(t, "calls", calls, 0)
			wantContains(t, err.Error(), tc.says)
		})
	}
}

func TestJSONHandlersKeepTheFunctionsError(t *testing.T) {
	h := msk.JSON(func(_ context.Context, _ amount, r msk.Record) (string, error) {
		equal(t, "the record", r.Source(), "payments-0@7")
		return "", idem.Unavailable(errBoom)
	})
	_, err := h(t.Context(), *one(t, record{value: "{}"}))
	wantErr(t, err, errBoom)
	equal(t, "unavailable", idem.IsUnavailable(err), true)
}

// loud is a result whose encoding fails in the way that it says.
type loud string

// MarshalJSON implements json.Marshaler.
func (l loud) MarshalJSON() ([]byte, error) {
	if l == "panic" {
		panic("no encoding")
	}
	return nil, errors.New(string(l))
}

// The effect took place: a result that can't be encoded must not lead to a second one.
func TestResultThatCannotBeEncodedStillCompletes(t *testing.T) {
	for name, result := range map[string]any{"a channel": make(chan int), "an error": loud("boom"),
		"a panic": loud("panic")} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(memstore.Config{})
			engine, err := idem.New(store, idem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			s := newFixture(t)
			calls := 0
			s.consumer, err = msk.New(engine,
				msk.JSON(func(context.Context, amount, msk.Record) (any, error) {
					calls++
					return result, nil
				}), s.cfg)
			if err != nil {
				t.Fatal(err)
			}
			equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a").with("{}")))
			equal(t, "executed", s.last().Executed, 1)
			line := s.log.about("payments-0@7")
			equal(t, "level", line["level"], any("WARN"))
			wantContains(t, line["error"].(string), "the result can't be encoded")
			equalSlices(t, "reported places", s.deliver(recordAt("payments-0@7", "a").with("{}")))
			equal(t, "replayed", s.last().Replayed, 1)
			wantContains(t, s.log.about("payments-0@7")["error"].(string), "could not be encoded")
			equal(t, "calls", calls, 1)
		})
	}
}
