package redact_test

import (
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/text/redact"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:s3cret@h/db":                                  "…",
		"user:s3cret@h":                                             "…",
		"--x http://u:s3cret@h y":                                   "…",
		"-----BEGIN PRIVATE KEY-----\ns3cret":                       "-----BEGIN PRIVATE KEY-----\n…",
		`-----BEGIN PRIVATE KEY-----\ns3cret`:                       `-----BEGIN PRIVATE KEY-----\…`,
		"postgres://h/db?user=u&password=s3cret":                    "postgres://h/db?…",
		"postgres://u:s3cret":                                       "postgres://u:…",
		"https://h/#s3cret":                                         "https://h/#…",
		"host=h user=u\npassword=s3cret":                            "host=…",
		"password: s3cret":                                          "password: …",
		`{"username":"u","password":"s3cret"}`:                      "{…",
		`PlainLoginModule required username="u" password="s3cret";`: "PlainLoginModule required username=…",
		"s3://payments":                                             "s3://payments",
		"a#b":                                                       "a#b",
		"a=":                                                        "a=",
		"10 s":                                                      "10 s",
		"broker:9092":                                               "broker:9092",
		"header:payment-id":                                         "header:payment-id",
		"arn:aws:kafka:eu-central-1:1:cluster/c":                    "arn:aws:kafka:eu-central-1:1:cluster/c",
		"":                                                          "",
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

func TestSetting(t *testing.T) {
	for name, of := range map[string]map[string]string{
		"IDEMSK_KAFKA_SECRET_ARN": {`{"password":"s3cret"}`: "…", "arn:aws:secretsmanager:x": "arn:aws:secretsmanager:x", "": ""},
		"IDEMSK_STORE":            {"postgres://u:s3cret@h/db": "…", "mysql": "mysql"},
	} {
		for value, want := range of {
			if got := redact.Setting(name, value); got != want {
				t.Errorf("%s: %q: %q; want %q", name, value, got, want)
			}
		}
	}
}

func TestParseURL(t *testing.T) {
	for text, fine := range map[string]bool{
		"postgres://u:p%40@h:1,i:2/db?sslmode=require": true, "redis://h": true, "redis://:p@[::1]:6379/0?cluster=true": true,
		"postgres://u:s3@cret@h/db": false, "postgres://u:12/cret@h/db": false, "redis://u:12?cret@h": false, "redis://u:12#cret@h": false,
		"postgres://u:s3cret": false, "redis://u:s3\ncret@h": false, "postgres://h/d@b": false,
	} {
		if _, err := redact.ParseURL(text); (err == nil) != fine || err != nil && strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
