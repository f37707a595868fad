package msk_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/kafka"
)

func TestInvalidPathsAreRefused(t *testing.T) {
	for _, path := range []string{
		"", "$", "id", ".id", "$id", "$.", "$..id", "$.a.", "$.a[", "$.a[]", "$.a[-1]", "$.a[x]", "$.a[1",
		"$.a[*]", "$.*", "$.a[?(@.b)]",
		"$['a", "$['']", `$["a']`, "$.a b", "$.a]", "$.a'b", "$[99999999999]", "$.a,$.b", "$.a[1]b",
	} {
		if key, err := kafka.JSONKey(path); err == nil {
			got, keyErr := key(t.Context(), one(t, record{value: `{"a":{"b":[1,2,3]},"id":"k"}`}))
			t.Errorf("%q was taken for a path; it finds %q, %v", path, got, keyErr)
		} else if path != "" {
			wantContains(t, err.Error(), strconv.Quote(path), "names and indices")
		}
		if _, err := kafka.JSONFingerprint(path); err == nil {
			t.Errorf("%q was taken for the path of a fingerprint", path)
		}
	}
	if _, err := kafka.JSONKey(); err == nil {
		t.Error("no path at all was taken")
	}
}

func TestValidPaths(t *testing.T) {
	const value = `{"a":{"b":[10,[20,21],{"c d":30}],"":1,"é":40,"$":50,"x-y_z":60,"]":70,"'":80},"0":90}`
	for path, want := range map[string]string{
		"$.a.b[0]": "10", " $.a.b[0] ": "10", "$['a']['b'][0]": "10", `$["a"].b[1][1]`: "21",
		"$.a.b[2]['c d']": "30", "$.a.é": "40",
		"$.a.$": "50", "$.a.x-y_z": "60", "$.a[']']": "70", `$.a["'"]`: "80", "$.0": "90", "$.a.b[00]": "10",
	} {
		got, err := jsonKey(t, path)(t.Context(), one(t, record{value: value}))
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		equal(t, path, got, want)
	}
}

func TestPathsWithoutAnElementHaveNoKey(t *testing.T) {
	for _, path := range []string{"$.x", "$.a.x", "$.a[0]", "$.b.c", "$.b[1]", "$.b[9]", "$.s.t", "$.s[0]",
		"$.n", "$.n.x"} {
		_, err := jsonKey(t, path)(t.Context(), one(t, record{value: `{"a":{},"b":[1],"s":"text","n":null}`}))
		if err == nil {
			t.Errorf("%q finds something", path)
			continue
		}
		wantErr(t, err, kafka.ErrNoKey)
		wantContains(t, err.Error(), strings.TrimSpace(path))
	}
	for _, value := range []string{`null`, `"text"`, `5`, `[]`} {
		_, err := jsonKey(t, "$.a")(t.Context(), one(t, record{value: value}))
		wantErr(t, err, kafka.ErrNoKey)
	}
}
