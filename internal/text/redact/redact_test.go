package redact_test

import (
	"testing"

	"github.com/idemsk/idemsk/internal/text/redact"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:s3cret@h/db":                                  "…@h/db",
		"http://user:s3/cr@et@h/x":                                  "…@h/x",
		"user:s3cret@h":                                             "…@h",
		"sasl://u:s3cret@h:9092,sasl://v:t@i:9092":                  "…@i:9092",
		"--x http://u:s3cret@h y":                                   "--x …@h y",
		"-----BEGIN PRIVATE KEY-----":                               "…",
		"postgres://h/db?user=u&password=s3cret":                    "postgres://h/db?…",
		"postgres://u:s3?c=r{et@h:5432/db?T0KEN":                    "…@h:5432/db?…",
		"host=h user=u\npassword=s3cret":                            "host=…",
		`{"username":"u","password":"s3cret"}`:                      "{…",
		`PlainLoginModule required username="u" password="s3cret";`: "PlainLoginModule required username=…",
		"a=":                                     "a=",
		"broker:9092":                            "broker:9092",
		"header:payment-id":                      "header:payment-id",
		"arn:aws:kafka:eu-central-1:1:cluster/c": "arn:aws:kafka:eu-central-1:1:cluster/c",
		"":                                       "",
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

func TestSetting(t *testing.T) {
	for name, of := range map[string]map[string]string{
		"IDEMSK_KAFKA_SECRET_ARN": {`{"password":"s3cret"}`: "…", "arn:aws:secretsmanager:x": "arn:aws:secretsmanager:x", "": ""},
		"IDEMSK_STORE":            {"postgres://u:s3cret@h/db": "…@h/db", "mysql": "mysql"},
	} {
		for value, want := range of {
			if got := redact.Setting(name, value); got != want {
				t.Errorf("%s: %q: %q; want %q", name, value, got, want)
			}
		}
	}
}
