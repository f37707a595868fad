package dynamofake

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd         tokenKind = iota
	tokenIdentifier            // a bare attribute name or a function's name; in PartiQL perhaps in double quotes
	tokenQuoted                // in single quotes, of PartiQL
	tokenName                  // #placeholder
	tokenValue                 // :placeholder; in PartiQL a question mark and the number of those before it
	tokenKeyword               // of the grammar, in any case
	tokenPunctuation           // operators, brackets, and any character that belongs nowhere
)

// token is a part of an expression, expression[start:end].
type token struct {
	kind       tokenKind
	text       string // keywords in upper case, names without their quotes
	start, end int
}

// lexer splits an expression or a statement into tokens.
type lexer struct {
	text       string
	pos        int
	partiQL    bool // a statement
	parameters int  // the question marks so far
}

func (l *lexer) next() token {
	for l.pos < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.pos]) >= 0 {
		l.pos++
	}
	t := token{start: l.pos}
	if l.pos == len(l.text) {
		t.end = l.pos
		return t
	}
	t.kind, l.pos = l.scan()
	t.end = l.pos
	t.text = l.text[t.start:t.end]
	switch quoted := t.end > t.start+1 && (t.text[0] == '"' || t.text[0] == '\''); {
	case quoted:
		t.text = t.text[1 : len(t.text)-1]
	case l.partiQL && t.text == "?":
		t.text += strconv.Itoa(l.parameters)
		l.parameters++
	case t.kind == tokenIdentifier && l.isKeyword(t.text):
		t.kind, t.text = tokenKeyword, strings.ToUpper(t.text)
	}
	return t
}

// scan returns the kind and the end of the token at the current position.
func (l *lexer) scan() (tokenKind, int) {
	c := l.text[l.pos]
	word := l.pos + 1 + wordLength(l.text[l.pos+1:])
	switch {
	case isLetter(c):
		return tokenIdentifier, word
	case l.partiQL && c == '?':
		return tokenValue, l.pos + 1
	case l.partiQL && (c == '"' || c == '\''):
		return l.quoted(c)
	case l.partiQL && (c == '#' || c == ':'):
		return tokenPunctuation, l.pos + 1
	case c == '#' && word > l.pos+1:
		return tokenName, word
	case c == ':' && word > l.pos+1:
		return tokenValue, word
	case isDigit(c):
		return tokenPunctuation, l.pos + leadingDigits(l.text[l.pos:])
	}
	for _, operator := range [...]string{"<>", "<=", ">="} {
		if strings.HasPrefix(l.text[l.pos:], operator) {
			return tokenPunctuation, l.pos + len(operator)
		}
	}
	_, size := utf8.DecodeRuneInString(l.text[l.pos:])
	return tokenPunctuation, l.pos + size
}

// quoted returns the kind and the end of a name in quotes. A quote without a name is punctuation.
func (l *lexer) quoted(quote byte) (tokenKind, int) {
	length := strings.IndexByte(l.text[l.pos+1:], quote)
	switch {
	case length < 1:
		return tokenPunctuation, l.pos + 1
	case quote == '"':
		return tokenIdentifier, l.pos + length + 2
	}
	return tokenQuoted, l.pos + length + 2
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// wordLength returns how many characters of a name s begins with.
func wordLength(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '_') {
		n++
	}
	return n
}

func (l *lexer) isKeyword(word string) bool {
	if !l.partiQL {
		return isKeyword(word)
	}
	switch strings.ToUpper(word) {
	case "INSERT", "INTO", "VALUE", "UPDATE", "SET", "REMOVE", "WHERE", "AND", "OR", "NOT", "IS", "MISSING",
		"SELECT", "DELETE", "EXISTS":
		return true
	}
	return false
}

func isKeyword(word string) bool {
	switch strings.ToUpper(word) {
	case "AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE":
		return true
	}
	return false
}
