package dynamofake

import "time"

// Config are the options of a server. The zero value is valid: no latency, no faults, a free port on
// 127.0.0.1.
type Config struct {
	// Addr is the loopback address that Start listens on (default: localhttp.FreePort).
	Addr string
	// Latency delays each request before it is performed. It is 0 or more.
	Latency time.Duration
	// Now is the clock of creation times and of the lifetime of transaction tokens (default time.Now).
	Now func() time.Time
	// Fault, if set, is called before each request and returns the fault to inject. The operation is named as
	// in the API ("PutItem"). Fault must neither change the body nor keep it after its return. It is called
	// concurrently and must not call Close.
	Fault func(operation string, body []byte) Fault
	// Observe, if set, is called for each write of an item that is performed or that its condition refuses,
	// in the order of the writes. A transaction that is refused is observed with the writes whose own
	// conditions fail. Observe must return soon, must not call the server, and must not keep the Write.
	Observe func(w *Write)
	// NoTable ends the message of the error for a table that does not exist: what creates it.
	NoTable string
}

// Fault is an injected fault of a request. The zero value is none.
type Fault struct {
	Delay      time.Duration // waited before the request is performed, on top of the latency
	Error      *Error        // answered instead of performing the request
	ReplyDelay time.Duration // waited between performing the request and answering it
	DropReply  bool          // the connection is closed instead of an answer: the reply is lost
}
