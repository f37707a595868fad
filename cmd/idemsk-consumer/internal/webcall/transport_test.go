package webcall_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// No part of an answer is in an error: it may have values of records.
func TestErrorsDoNotQuoteAnAnswer(t *testing.T) {
	t.Parallel()
	const secret = "john@example.com"
	for _, answer := range []string{
		"HTTP/1.1 500 no account of " + secret + "\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 " + secret + "\r\n\r\n",
		secret + "\r\n\r\n",
		"HTTP/" + secret + " 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n",
	} {
		l := listener(t, func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		})
		_, err := clientOf(t, "http://"+l.Addr().String(), patience).Call(t.Context(), []byte("{}"))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v; want an error that does not quote it", answer, err)
		}
	}
}

// An answer whose headers are too large is valid HTTP: the error says what is wrong.
func TestHeadersOfAnAnswerThatAreTooLarge(t *testing.T) {
	t.Parallel()
	for http2, want := range map[bool]string{false: "headers exceeded", true: "connection error"} {
		service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 11<<20))
		}))
		service.EnableHTTP2 = http2
		service.StartTLS()
		t.Cleanup(service.Close)
		_, err := clientOf(t, service.URL, patience).Call(t.Context(), []byte("{}"))
		if classOf(err) != "failed, unknown" || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("HTTP/2 %t: %s, %v; want an unknown outcome, and %q", http2, classOf(err), err, want)
		}
	}
}

// A service that refuses the client's certificate has not read the request, also with TLS 1.3, where the client may
// send before it is refused.
func TestRefusedCertificateOfTheClient(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, two := range []bool{false, true} {
			if two && version == tls.VersionTLS13 {
				continue // the transport does not always say why the connection ended: the outcome is unknown then
			}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				t.Error("the request is handled")
			}))
			s.EnableHTTP2 = two
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: version, MaxVersion: version}
			s.StartTLS()
			t.Cleanup(s.Close)
			c := clientOf(t, s.URL, patience)
			for range 3 {
				if _, err := c.Call(t.Context(), []byte("{}")); classOf(err) != "unavailable" {
					t.Errorf("%s, HTTP/2 %t: %s, %v; want unavailable", tls.VersionName(version), two, classOf(err), err)
				}
			}
		}
	}
}

// RFC 9113: a stream that is refused, or is above the last one of a GOAWAY, was not processed. One that is reset for
// another reason may have been.
func TestStreamsThatAreNotProcessed(t *testing.T) {
	t.Parallel()
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	reset := func(code byte) []byte { return []byte{0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, code} } // RST_STREAM of stream 1
	for name, tc := range map[string]struct {
		refuse []byte
		want   string
	}{
		"REFUSED_STREAM": {reset(7), "unavailable"},
		"GOAWAY":         {[]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "unavailable"}, // the last stream is 0
		"PROTOCOL_ERROR": {reset(1), "failed, unknown"},
		"INTERNAL_ERROR": {reset(2), "failed, unknown"},
		"CANCEL":         {reset(8), "failed, unknown"},
	} {
		plain := listener(t, func(conn net.Conn) {
			c := tls.Server(conn, &tls.Config{Certificates: pair.TLS.Certificates, NextProtos: []string{"h2"}})
			if err := refuseStreams(c, tc.refuse); err != nil {
				fmt.Fprint(io.Discard, err) // the client has gone
			}
		})
		c := clientOf(t, "https://"+plain.Addr().String(), patience)
		if _, err := c.Call(t.Context(), []byte("{}")); classOf(err) != tc.want {
			t.Errorf("%s: %s, %v; want %s", name, classOf(err), err, tc.want)
		}
	}
}

// refuseStreams serves HTTP/2, and answers the first stream with a frame.
func refuseStreams(c net.Conn, refuse []byte) error {
	const preface, header = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 9
	const headers, settings = 1, 4 // types of frames
	if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
		return err
	}
	if _, err := c.Write([]byte{0, 0, 0, settings, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	for {
		frame := make([]byte, header)
		if _, err := io.ReadFull(c, frame); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, c, int64(frame[0])<<16|int64(frame[1])<<8|int64(frame[2])); err != nil {
			return err
		}
		if frame[3] == headers {
			if _, err := c.Write(refuse); err != nil {
				return err
			}
		}
	}
}
