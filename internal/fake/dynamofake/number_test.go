package dynamofake

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonicalNumber(t *testing.T) {
	const (
		overflow  = "ValidationException: Number overflow. Attempting to store a number with magnitude larger than supported range"
		underflow = "ValidationException: Number underflow. Attempting to store a number with magnitude smaller than supported range"
		precision = "ValidationException: DynamoDB only supports precision up to 38 digits"
		wrong     = "ValidationException: A value provided cannot be converted into a number"
	)
	nines := strings.Repeat("9", 38)
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "0e500": "0", "00": "0", "+1": "1", "01": "1", "-1": "-1",
		"1.50": "1.5", "100": "100",
		"1e5": "100000", "1E+5": "100000", "1e-5": "0.00001", "-1e-5": "-0.00001", ".5": "0.5", "5.": "5",
		"00.00100": "0.001",
		"12.34e1":  "123.4", "12.34e-1": "1.234", "12.34e2": "1234", "12.34e-3": "0.01234",
		nines: nines, nines + "00": nines + "00", "0." + nines: "0." + nines, "1" + nines: precision,
		"0.1" + nines:             precision,
		"1e125":                   "1" + strings.Repeat("0", 125),
		"9." + nines[1:] + "e125": nines + strings.Repeat("0", 88),
		"1e126":                   overflow, "-1e126": overflow, "10e125": overflow, "1e2147483647": overflow,
		"1e2147483648": wrong,
		"1e-130":       "0." + strings.Repeat("0", 129) + "1", "1e-131": underflow, "0.1e-130": underflow,
		"1e-2147483648": underflow,
		"":              wrong, " 1": wrong, "1 ": wrong, "-": wrong, ".": wrong, "1e": wrong, "1e+": wrong,
		"--1":   wrong,
		"1.2.3": wrong,
		"0x1":   wrong, "1_0": wrong, "NaN": wrong, "Infinity": wrong, "1f": wrong, "e1": wrong, "١": wrong,
	} {
		got, err := canonicalNumber(in)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestNumberSize(t *testing.T) {
	for in, want := range map[string]int{
		"0": 1, "1": 2, "-1": 3, "10": 2, "12": 2, "100": 2, "123": 3, "1234": 3, "12345": 4, "0.1": 2,
		"0.12": 2, "1.5": 3,
		"10.01": 3, "1795217576129": 8, "-12": 3, "-123": 4, "12345678901234567890123456789012345678": 20,
	} {
		if got := numberSize(in); got != want {
			t.Errorf("%s: %d bytes, want %d", in, got, want)
		}
	}
}

func TestItemSize(t *testing.T) {
	for in, want := range map[string]int{
		`{}`: 0, `{"k":{"S":"a"}}`: 2, `{"k":{"S":""}}`: 1, `{"k":{"S":"é"}}`: 3, `{"key":{"N":"-12"}}`: 6,
		`{"k":{"B":"AQI="}}`:  3,
		`{"k":{"BOOL":true}}`: 2, `{"k":{"NULL":true}}`: 2, `{"k":{"L":[]}}`: 4, `{"k":{"L":[{"S":"a"}]}}`: 6,
		`{"k":{"L":[{"S":"a"},{"S":"b"}]}}`: 8, `{"k":{"M":{}}}`: 4,
		`{"k":{"M":{"a":{"S":"b"},"cc":{"N":"1"}}}}`: 12,
		`{"k":{"M":{"a":{"M":{}}}}}`:                 9, `{"k":{"SS":["a","bb"]}}`: 4,
		`{"k":{"NS":["1","123"]}}`: 6,
		`{"k":{"BS":["AQI="]}}`:    3,
	} {
		r := jsonReader{text: in}
		it := r.item()
		if err := r.end(); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if got := it.size(); got != want {
			t.Errorf("%s: %d bytes, want %d", in, got, want)
		}
	}
}

// canonicals draws numbers that DynamoDB can store, in canonical form.
func canonicals() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n, err := canonicalNumber(rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,15})?(e-?[0-9]{1,2})?`).Draw(
			t, "number"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	})
}

func rational(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	return r
}

func TestNumbersAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := canonicals().Draw(t, "a"), canonicals().Draw(t, "b")
		x, y := rational(t, a), rational(t, b)
		if again, err := canonicalNumber(a); again != a || err != nil {
			t.Errorf("canonical %s becomes %s, %v", a, again, err)
		}
		if got, want := compareNumbers(a, b), x.Cmp(y); got != want {
			t.Errorf("compare %s with %s: %d, want %d", a, b, got, want)
		}
		if (a == b) != (x.Cmp(y) == 0) {
			t.Errorf("%s and %s: equal numbers have to be equal texts", a, b)
		}
		subtract := rapid.Bool().Draw(t, "subtract")
		want := new(big.Rat).Add(x, y)
		if subtract {
			want.Sub(x, y)
		}
		switch got, err := addNumbers(a, b, subtract); {
		case err == nil && rational(t, got).Cmp(want) != 0:
			t.Errorf("%s and %s, subtract %v: %s, want %s", a, b, subtract, got, want.RatString())
		case err != nil && fits(want):
			t.Errorf("%s and %s, subtract %v: %v, though it has few digits", a, b, subtract, err)
		}
	})
}

// fits reports whether 38 digits are certainly enough for a number with few digits before its point.
func fits(r *big.Rat) bool {
	text := strings.Trim(strings.Replace(r.FloatString(120), ".", "", 1), "-0")
	return len(text) <= maxDigits
}
