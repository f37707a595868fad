// Package redact removes credentials from what a person has typed, so that an error can quote it.
package redact

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// hidden takes the place of what may be a secret.
const hidden = "…"

// secret is what a secret may follow: the user or the host of a URL, the sign before a query, a quotation, a value of a
// pair or a document.
var secret = regexp.MustCompile("(?s)^(.*?(?:://[^:#]*?[:#]|: |[?={\"'`;\\\\\r\n])).+")

// Text returns a text up to what may be a secret. All of a text with an '@' may be one.
func Text(text string) string {
	if strings.Contains(text, "@") {
		return hidden
	}
	return secret.ReplaceAllString(text, "${1}"+hidden)
}

// Setting returns the value of a variable as Text does. A value that is no ARN where a secret's is wanted may be the
// secret.
func Setting(name, value string) string {
	if strings.HasSuffix(name, "SECRET_ARN") && value != "" && !strings.HasPrefix(value, "arn:") {
		return hidden
	}
	return Text(value)
}

var errURL = errors.New("it is not a URL; special characters of a user or a password must be written as %XX: @ as %40, / as %2F")

// ParseURL parses a URL. It returns an error if a part of a password may count as another part of the URL, which the
// errors of a client would quote.
func ParseURL(text string) (*url.URL, error) {
	_, rest, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	u, err := url.Parse(text)
	if n := strings.Count(text, "@"); err != nil || n > 1 || n > strings.Count(rest, "@") {
		return nil, errURL
	}
	return u, nil
}
