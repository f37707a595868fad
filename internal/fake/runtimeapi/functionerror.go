package runtimeapi

import (
	"encoding/json"
	"fmt"
	"strings"
)

const maxErrorText = 1000 // bytes of an error that is no JSON that go into the message

func (a *api) functionError(id, kind, message string, payload []byte) *FunctionError {
	return &FunctionError{Function: a.cfg.Name, RequestID: id, Type: kind, Message: message, Payload: payload}
}

// parseError reads an error document. All runtimes use errorType and errorMessage; the format of the stack
// differs, and the document is optional. kind is the type in the header.
func (a *api) parseError(id, kind string, body []byte) *FunctionError {
	var document struct {
		ErrorType    string          `json:"errorType"`
		ErrorMessage string          `json:"errorMessage"`
		StackTrace   json.RawMessage `json:"stackTrace"`
		Trace        json.RawMessage `json:"trace"` // Node's name for it
	}
	e := a.functionError(id, kind, "", body)
	if err := json.Unmarshal(body, &document); err != nil {
		e.Message = strings.ToValidUTF8(string(body[:min(len(body), maxErrorText)]), "\uFFFD")
	} else {
		e.Message = document.ErrorMessage
		e.StackTrace = append(frames(document.StackTrace), frames(document.Trace)...)
		if document.ErrorType != "" {
			e.Type = document.ErrorType
		}
	}
	if e.Type == "" {
		e.Type = "Runtime.Unknown"
	}
	return e
}

// frames returns each frame of a stack as one text.
func frames(stack json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(stack, &list) != nil {
		return nil
	}
	var texts []string
	for _, item := range list {
		texts = append(texts, frame(item))
	}
	return texts
}

func frame(item json.RawMessage) string {
	var text string
	if json.Unmarshal(item, &text) == nil {
		return text
	}
	var golang struct {
		Path  string `json:"path"`
		Line  int    `json:"line"`
		Label string `json:"label"`
	}
	if json.Unmarshal(item, &golang) == nil && golang.Label != "" {
		return fmt.Sprintf("%s (%s:%d)", golang.Label, golang.Path, golang.Line)
	}
	return string(item)
}
