package dynamofake

import (
	"math/big"
	"strconv"
	"strings"
)

// DynamoDB's numbers: decimal, at most 38 significant digits, magnitude within 1E-130 and 9.9…E+125. They are
// kept as text in the form of DynamoDB's answers (no exponent, no leading or trailing zeros), so that equal
// numbers are equal strings.

const (
	maxDigits       = 38
	maxLeadingPower = 125
	minLeadingPower = -130
)

// decimal is ±digits × 10^exponent. The digits have no zero at either end; zero has none.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// leadingDigits returns how many digits s begins with.
func leadingDigits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// parseDecimal reads a number as DynamoDB accepts it: sign, digits with or without a point, exponent.
func parseDecimal(s string) (decimal, bool) {
	var d decimal
	if s != "" && (s[0] == '-' || s[0] == '+') {
		d.negative = s[0] == '-'
		s = s[1:]
	}
	whole := s[:leadingDigits(s)]
	s = s[len(whole):]
	d.digits = whole
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		fraction := s[:leadingDigits(s)]
		s = s[len(fraction):]
		d.digits = whole + fraction
		d.exponent = -len(fraction)
	}
	if d.digits == "" {
		return decimal{}, false
	}
	if s != "" {
		e, ok := parseExponent(s)
		if !ok {
			return decimal{}, false
		}
		d.exponent += e
	}
	return d.trimmed(), true
}

func parseExponent(s string) (int, bool) {
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	e, err := strconv.ParseInt(s[1:], 10, 32)
	return int(e), err == nil
}

func (d decimal) trimmed() decimal {
	d.digits = strings.TrimLeft(d.digits, "0")
	n := len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	d.exponent += n - len(d.digits)
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// canonical returns the number in DynamoDB's form, or DynamoDB's error if it is out of range.
func (d decimal) canonical() (string, error) {
	if d.digits == "" {
		return "0", nil
	}
	leading := len(d.digits) + d.exponent - 1 // the power of ten of the first digit
	switch {
	case len(d.digits) > maxDigits:
		return "", invalid("DynamoDB only supports precision up to 38 digits")
	case leading > maxLeadingPower:
		return "", invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case leading < minLeadingPower:
		return "", invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	}
	var b strings.Builder
	if d.negative {
		b.WriteByte('-')
	}
	switch {
	case d.exponent >= 0:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", d.exponent))
	case leading >= 0:
		b.WriteString(d.digits[:leading+1])
		b.WriteByte('.')
		b.WriteString(d.digits[leading+1:])
	default:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -leading-1))
		b.WriteString(d.digits)
	}
	return b.String(), nil
}

func canonicalNumber(s string) (string, error) {
	if n := leadingDigits(s); n == len(s) && n > 0 && n <= maxDigits && (s[0] != '0' || n == 1) {
		return s, nil // the usual case, as it is
	}
	d, ok := parseDecimal(s)
	if !ok {
		return "", invalid("A value provided cannot be converted into a number")
	}
	return d.canonical()
}

// addNumbers adds two canonical numbers, or subtracts the second from the first.
func addNumbers(a, b string, subtract bool) (string, error) {
	const safe = 18 // digits whose sum fits an int64
	if len(a) <= safe && len(b) <= safe {
		x, errX := strconv.ParseInt(a, 10, 64)
		y, errY := strconv.ParseInt(b, 10, 64)
		if errX == nil && errY == nil {
			if subtract {
				y = -y
			}
			return strconv.FormatInt(x+y, 10), nil
		}
	}
	x, _ := parseDecimal(a) // canonical, so it parses
	y, _ := parseDecimal(b)
	y.negative = y.negative != subtract
	exponent := min(x.exponent, y.exponent)
	sum := new(big.Int).Add(x.scaled(exponent), y.scaled(exponent))
	d := decimal{negative: sum.Sign() < 0, digits: new(big.Int).Abs(sum).String(), exponent: exponent}
	return d.trimmed().canonical()
}

// scaled returns the number in units of 10^exponent, which is at most the number's own.
func (d decimal) scaled(exponent int) *big.Int {
	n := new(big.Int)
	if d.digits == "" {
		return n
	}
	n.SetString(d.digits+strings.Repeat("0", d.exponent-exponent), 10)
	if d.negative {
		n.Neg(n)
	}
	return n
}

// compareNumbers orders two canonical numbers: -1, 0 or 1.
func compareNumbers(a, b string) int {
	x, negativeA := strings.CutPrefix(a, "-")
	y, negativeB := strings.CutPrefix(b, "-")
	switch {
	case negativeA && negativeB:
		return compareMagnitudes(y, x)
	case negativeA:
		return -1
	case negativeB:
		return 1
	}
	return compareMagnitudes(x, y)
}

func compareMagnitudes(a, b string) int {
	wholeA, fractionA, _ := strings.Cut(a, ".")
	wholeB, fractionB, _ := strings.Cut(b, ".")
	if len(wholeA) != len(wholeB) {
		if len(wholeA) < len(wholeB) {
			return -1
		}
		return 1
	}
	if c := strings.Compare(wholeA, wholeB); c != 0 {
		return c
	}
	return strings.Compare(fractionA, fractionB)
}

// numberSize returns the size of a canonical number in an item: a byte for every two digits, in pairs that
// are aligned to the decimal point, one for a negative sign, and one more.
func numberSize(s string) int {
	d, _ := parseDecimal(s)
	if d.digits == "" {
		return 1
	}
	lowest, highest := d.exponent>>1, (d.exponent+len(d.digits)-1)>>1
	size := highest - lowest + 1 + 1
	if d.negative {
		size++
	}
	return size
}
