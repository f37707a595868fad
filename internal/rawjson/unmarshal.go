package rawjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Unmarshal is json.Unmarshal, whose errors can quote a part of the data. The errors of Unmarshal do not,
// because logs and dead letters show them.
func Unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var malformed *json.SyntaxError // names one character
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil, errors.As(err, &malformed):
		return err
	case errors.As(err, &wrong):
		wrong.Value, _, _ = strings.Cut(wrong.Value, " ") // without the number
		return wrong
	}
	return fmt.Errorf("a Go type refuses a part of it, which is not quoted (%T)", err)
}
