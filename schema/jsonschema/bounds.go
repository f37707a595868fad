package jsonschema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The bounds of a number. The library calculates with all digits of a number, also with those that its
// exponent stands for.
const (
	maxExponent = 1000
	maxDigits   = 1000
)

// checkNumbers returns an error if a number in JSON is beyond the bounds.
func checkNumbers(value any) error {
	switch value := value.(type) {
	case json.Number:
		return checkNumber(string(value))
	case []any:
		for _, item := range value {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range value {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNumber(number string) error {
	if len(number) > maxDigits {
		return fmt.Errorf("a number has %d characters, the limit is %d", len(number), maxDigits)
	}
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		if exponent, err := strconv.Atoi(number[i+1:]); err != nil || exponent > maxExponent ||
			exponent < -maxExponent {
			return fmt.Errorf("a number has an exponent beyond %d", maxExponent)
		}
	}
	return nil
}
