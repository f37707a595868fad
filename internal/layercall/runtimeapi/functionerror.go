package runtimeapi

import (
	"cmp"

	"github.com/idemsk/idemsk/internal/mskevent"
)

func (a *api) rejected(id, kind, message string) *FunctionError {
	return &FunctionError{Function: a.cfg.Name, RequestID: id, Type: kind, Message: message, Rejected: true}
}

func (a *api) parseError(id, kind string, body []byte) *FunctionError {
	kind, message := mskevent.ErrorDocument(kind, body)
	return &FunctionError{Function: a.cfg.Name, RequestID: id, Type: cmp.Or(kind, "Runtime.Unknown"), Message: message, Payload: body}
}
