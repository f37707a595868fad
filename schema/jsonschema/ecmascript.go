package jsonschema

import (
	"fmt"
	"regexp"
	"strings"
)

// Ranges of characters for the package regexp. The contents of a class begin with a character that ends no
// range and end with a range, so that a hyphen before or behind them does not make another range.
const (
	space = `\t-\r \x{a0}\x{1680}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}\x{2000}-\x{200a}`
	other = `\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
	anyInLine = `[^\n\r\x{2028}\x{2029}]`
)

var (
	posixClass = regexp.MustCompile(`^\[:\^?[A-Za-z]+:\]`)
	reference  = regexp.MustCompile(`^\\[1-9]`)
	// group is the beginning of a group that is not only "(": one without a number, a look at what is ahead or behind,
	// a group with a name, or one with flags, which end with it.
	group = regexp.MustCompile(`^\(\?(?::|<?[=!]|<[^\d>-][^>-]*>|[ims]+(?:-[ims]*)?:|-[ims]+:)`)
)

// linear returns a pattern of ECMAScript for the package regexp, whose \s and dot are others. ok is false if
// the package would read the rest of the pattern otherwise: flags, references to groups such as \10, which it reads as
// an octal number, and classes that begin with a bracket. The
// error is for what both packages read and ECMAScript does not: they would give it another meaning.
func linear(pattern string) (text string, ok bool, err error) {
	var out strings.Builder
	ok = true
	inClass := false
	for rest := pattern; rest != ""; {
		n, part := 1, rest[:1]
		switch {
		case rest[0] == '\\':
			if n, err = escape(rest); err != nil {
				return "", false, err
			}
			part = translated(rest[:n], inClass)
			ok = ok && (inClass || !reference.MatchString(rest))
		case inClass && rest[0] == ']':
			inClass = false
		case inClass && posixClass.MatchString(rest):
			return "", false, fmt.Errorf("a pattern has a class such as [:alpha:], which ECMAScript does not have: %.100q", rest)
		case inClass && rest[0] == '[':
			part = `\[` // for the package regexp, "[:" would begin a class
		case inClass:
		case rest[0] == '[':
			inClass = true
			after := strings.TrimPrefix(rest[1:], "^")
			n = len(rest) - len(after)
			part = rest[:n]
			ok = ok && !strings.HasPrefix(after, "]")
			if strings.HasPrefix(after, "]") { // the class is empty
				inClass, n = false, n+1
			}
		case rest[0] == '.':
			part = anyInLine
		case strings.HasPrefix(rest, "(?") && !group.MatchString(rest):
			return "", false, fmt.Errorf("a pattern has a group that ECMAScript does not have: %.100q", rest)
		case hasFlags(rest):
			ok = false
		}
		out.WriteString(part)
		rest = rest[n:]
	}
	return out.String(), ok, nil
}

// escape returns the length of the escape with which a text begins, up to the character behind the backslash.
func escape(text string) (int, error) {
	const letters = "dDsSwWbBfnrtvcxukpP"
	if len(text) == 1 {
		return 1, nil // an error of each package
	}
	c, after := text[1], text[2:]
	isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	inBraces := strings.HasPrefix(after, "{")
	switch {
	case isLetter && !strings.Contains(letters, string(c)), c == 'x' && inBraces, (c == 'p' || c == 'P') && !inBraces:
		return 0, fmt.Errorf("a pattern has an escape that ECMAScript does not have: %.100q", text)
	}
	return 2, nil
}

// translated returns an escape for the package regexp.
func translated(escape string, inClass bool) string {
	switch {
	case escape == `\s` && inClass:
		return space
	case escape == `\S` && inClass:
		return other
	case escape == `\s`:
		return "[" + space + "]"
	case escape == `\S`:
		return "[^" + space + "]"
	}
	return escape
}

// hasFlags reports whether a text begins with a group that sets flags, such as (?s:.
func hasFlags(text string) bool {
	after, isGroup := strings.CutPrefix(text, "(?")
	return isGroup && strings.TrimLeft(after, "ims-") != after
}
