// Package redisserver runs real Redis and Valkey servers as processes of a test: in temporary folders, on free ports of
// 127.0.0.1, ended by their process ids. One can be stopped as an operator would, crashed, paused, started again on the same
// port, followed by a replica that can be promoted, and be a node of a cluster.
//
// The servers are those that scripts/redis.sh has installed, or that are installed on the machine.
package redisserver
