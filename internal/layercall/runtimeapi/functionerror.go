package runtimeapi

import (
	"encoding/json"
	"strings"
)

const maxErrorText = 1000 // bytes of an error that is no JSON that go into the message

func (a *api) rejected(id, kind, message string) *FunctionError {
	return &FunctionError{Function: a.cfg.Name, RequestID: id, Type: kind, Message: message, Rejected: true}
}

// parseError reads an error document, which is optional. kind is the type in the header.
func (a *api) parseError(id, kind string, body []byte) *FunctionError {
	var document struct {
		ErrorType    string `json:"errorType"`
		ErrorMessage string `json:"errorMessage"`
	}
	e := &FunctionError{Function: a.cfg.Name, RequestID: id, Type: kind, Payload: body}
	if err := json.Unmarshal(body, &document); err != nil {
		e.Message = strings.ToValidUTF8(string(body[:min(len(body), maxErrorText)]), "\uFFFD")
	} else {
		e.Message = document.ErrorMessage
		if document.ErrorType != "" {
			e.Type = document.ErrorType
		}
	}
	if e.Type == "" {
		e.Type = "Runtime.Unknown"
	}
	return e
}
