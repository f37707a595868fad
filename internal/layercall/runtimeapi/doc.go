// Package runtimeapi runs an unmodified AWS Lambda function as a child process, and serves the Lambda Runtime
// API (version 2018-06-01) to it over loopback HTTP. So the program that would be deployed can be invoked
// locally and in tests: a provided.* bootstrap, or any command that implements the Runtime API.
//
//	f, err := runtimeapi.Start(ctx, runtimeapi.Config{Command: []string{"./bootstrap"}, Timeout: 30 * time.Second})
//	if err != nil {
//		return err // names the cause and the remedy
//	}
//	defer f.Close(ctx)
//	result, err := f.Invoke(ctx, event)
//
// # As on AWS
//
// A process handles one invocation at a time, and is reused for the next one. After a failed invocation
// ([FunctionError]) it continues. A crash ([CrashError]) or an invocation that exceeds the function's timeout
// ([TimeoutError]) ends the process, and the next Invoke starts a new one. Status codes, headers, limits,
// error types, messages and environment variables are those of AWS. Of the parent's environment the function
// gets only PATH. An answer counts when it is complete. If the process continues to work after its answer,
// the next Invoke waits for it, for up to the function's timeout.
//
// With [Config].Concurrency a process handles several invocations at once, as on Lambda Managed Instances. An
// invocation that exceeds the timeout then fails alone: the process and its other invocations go on, and a
// late answer is refused. A crash fails all of them.
//
// # Output
//
// Lines are passed to [Config].Stdout and Stderr when they are printed. When Invoke returns, all lines that
// the process wrote before its answer have been passed: at the time of the answer they were read or are in
// the kernel's buffer of the pipe, and Invoke empties that buffer before it returns. There are limits. Data
// in the function's own buffers is not printed yet. A line without newline is passed when the newline arrives
// or the process ends. Output of other threads or processes may arrive later. Lines of more than 1 MiB are
// divided. After a crash or a timeout, too, all output has been passed.
//
// # Differences
//
// There is no memory limit. Processes are not frozen between invocations. There are no Extensions, Logs and
// Telemetry APIs: their paths answer 404, and WithEnableSIGTERM of aws-lambda-go then prints a warning and
// still gets its SIGTERM on Close. Responses are not streamed to the caller: a streamed answer is collected,
// within the limit of a buffered one. An error in the HTTP trailers of a streamed answer is read up to 4 KB
// of trailers, the maximum of net/http. Windows is not supported.
//
// # Processes
//
// Only the processes of the group and their descendants may use the Runtime API, on Linux: the loopback
// interface is that of all users and, in a pod, of all containers. Other processes get 403.
//
// The child has its own process group, so Ctrl-C in the terminal does not reach the function, and the whole
// group ends with the function. On Linux the kernel kills the child when this process dies. It does not kill
// the children of the child in that case.
package runtimeapi
