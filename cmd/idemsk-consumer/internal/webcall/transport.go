package webcall

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
)

// neverProcessed reports whether an error of the transport says that the service has not begun to handle the request,
// although there was a connection.
func neverProcessed(err error) bool {
	// HTTP/2: the stream was refused, or is above the last one of a GOAWAY. The transport sends such a request again
	// if it has the body; see request.
	// https://www.rfc-editor.org/rfc/rfc9113#section-8.7
	if _, reason, ok := strings.Cut(err.Error(), "http2: Transport: cannot retry err ["); ok {
		// not PROTOCOL_ERROR, with which the transport would send it again too: proxies say that of a bad answer
		return strings.HasPrefix(reason, "http2: ") || strings.Contains(reason, "; REFUSED_STREAM")
	}
	// TLS 1.3: the service checks the client's certificate when the client may send already. It reads no request before.
	// https://www.rfc-editor.org/rfc/rfc8446#section-4.4.2.4
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && slices.Contains(certificateAlerts, op.Err.Error())
}

// certificateAlerts are the texts of the alerts with which a service refuses a client's certificate.
var certificateAlerts = []string{
	tls.AlertError(40).Error(),  // handshake failure
	tls.AlertError(42).Error(),  // bad certificate
	tls.AlertError(43).Error(),  // unsupported certificate
	tls.AlertError(44).Error(),  // revoked certificate
	tls.AlertError(45).Error(),  // expired certificate
	tls.AlertError(46).Error(),  // unknown certificate
	tls.AlertError(48).Error(),  // unknown certificate authority
	tls.AlertError(49).Error(),  // access denied
	tls.AlertError(116).Error(), // certificate required
}

// errMalformed takes the place of an error of the transport that can quote parts of the answer.
var errMalformed = errors.New("it is not valid HTTP (not shown)")

// withoutAnswer returns an error of the transport without parts of the answer, which may have values of records.
func withoutAnswer(err error) error {
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		return network
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if text := harmless.FindString(err.Error()); text != "" {
		return errors.New(text)
	}
	return errMalformed
}

// harmless finds errors of the transport that say what happened without a part of the answer: those of a stream or a
// connection of HTTP/2, and of headers that are too large.
var harmless = regexp.MustCompile(`connection error: [A-Z0-9_]+|stream error: stream ID \d+; [A-Z0-9_]+|http2: client connection lost|` +
	`http2: server sent GOAWAY and closed the connection; LastStreamID=\d+, ErrCode=[A-Z0-9_]+|` +
	`server response headers exceeded \d+ bytes`)
