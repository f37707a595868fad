// Package redact removes credentials from what a person has typed, so that an error can quote it.
package redact

import (
	"regexp"
	"strings"
)

// userinfo is the part of a URL, or of what was meant as one, that may have a password.
var userinfo = regexp.MustCompile(`[^\s"']+:[^\s"']*@`)

// parameters are the query of a URL, pairs of names and values as libpq and JAAS have them, or a document in JSON.
var parameters = regexp.MustCompile(`(?s)([?={]).+`)

// hidden takes the place of what may be a secret.
const hidden = "…"

// Text returns a text without the users and passwords of URLs, without what is behind the first '?', '=' or '{', and
// nothing of one in PEM.
func Text(text string) string {
	if strings.Contains(text, "-----BEGIN") {
		return hidden
	}
	return parameters.ReplaceAllString(userinfo.ReplaceAllString(text, hidden+"@"), "${1}"+hidden)
}

// Setting returns the value of a variable as Text does. A value that is no ARN where a secret's is wanted may be the
// secret.
func Setting(name, value string) string {
	if strings.HasSuffix(name, "SECRET_ARN") && value != "" && !strings.HasPrefix(value, "arn:") {
		return hidden
	}
	return Text(value)
}
