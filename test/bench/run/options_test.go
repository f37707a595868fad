//go:build linux

package main

import (
	"regexp"
	"strings"
	"testing"
)

// A name that matches nothing would measure nothing, for a while.
func TestNamesThatMatchNothing(t *testing.T) {
	for says, o := range map[string]options{
		`there is no series "5ms": -series takes 'DynamoDB Local', '5 ms', `: {only: "5ms",
			dynamoDBLocal: "x", peers: regexp.MustCompile("")},
		"the series 'DynamoDB Local' needs -dynamodb-local": {only: localTable,
			peers: regexp.MustCompile("")},
		`no peer's name matches -peers "java": there are 'idemsk, key order`: {peers: regexp.MustCompile(
			"java")},
	} {
		if err := o.check(); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%v; want %s", err, says)
		}
	}
	for _, only := range []string{"", fiveMS, slowBatch, noLatency, localTable} {
		if err := (&options{only: only, dynamoDBLocal: "x", peers: regexp.MustCompile("^floor")}).check(); err != nil {
			t.Errorf("%q: %v", only, err)
		}
	}
}
