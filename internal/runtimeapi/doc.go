// Package runtimeapi runs an unmodified AWS Lambda function as a child process and serves it the Lambda Runtime API
// (version 2018-06-01) over loopback HTTP, so that a laptop or a test can invoke what would be deployed: a provided.*
// bootstrap, or any command that speaks the Runtime API.
//
//	f, err := runtimeapi.Start(ctx, runtimeapi.Config{Command: []string{"./bootstrap"}, Timeout: 30 * time.Second})
//	if err != nil {
//		return err // says what is wrong with the command and what to do
//	}
//	defer f.Close(ctx)
//	result, err := f.Invoke(ctx, event)
//
// # What is as on AWS
//
// One process serves one invocation at a time and stays warm for the next. A failed invocation ([FunctionError]) leaves
// the process alive; one that crashes ([CrashError]) or outlives the function's timeout ([TimeoutError]) ends the
// process, and the next Invoke starts another. Status codes, headers, limits, error types and messages are those of
// AWS, as are the names of the environment variables that the function sees; of the parent's environment it sees PATH
// alone. An answer counts when it has arrived whole: what the process does after it, before it asks for work again, is
// waited for by the next Invoke, for as long as the function's timeout.
//
// # What the function prints
//
// Lines reach [Config].Stdout and Stderr as they are printed, and every line that the process wrote before it answered
// has been delivered when Invoke returns. That holds although a pipe and an HTTP answer are two roads: the write into
// the pipe came before the answer, so when the answer is here the bytes are in the pipe's kernel buffer or were read
// already; Invoke empties the buffer itself before it returns. Its limits: what the function holds in a buffer of its
// own is not printed yet; a line without its newline is delivered when the newline comes or the process ends; output
// of other threads or processes that is not ordered before the answer may come later; lines longer than 1 MiB come in
// pieces. After a crash or a timeout all that was printed has been delivered too.
//
// # What is not there
//
// No memory limit, no frozen process between invocations, no Extensions, Logs or Telemetry API (their paths answer 404;
// aws-lambda-go's WithEnableSIGTERM then prints a warning, and gets its SIGTERM on Close all the same), no concurrent
// invocations in one process (several Functions do that), no response streaming to the caller (a streamed answer is
// collected, within the limit of a buffered one). An error that a streamed answer carries in its HTTP trailers is
// understood up to 4 KB of trailers, the most that net/http reads. Windows is not supported.
//
// # No process is left behind
//
// The child has a process group of its own, so that Ctrl-C in the terminal reaches the tool and not the function, and
// whatever ends the function ends its group. On Linux the kernel kills the child when this process dies, however it
// dies; the child's own children are not covered by that last case.
package runtimeapi
