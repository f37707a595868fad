// Package redisserver runs real Redis and Valkey servers as processes of a test: in temporary folders, on
// free ports of 127.0.0.1. It ends a server by its process ID. A server can be stopped, crashed, paused,
// restarted on the same port, followed by a replica that can be promoted, and be a node of a cluster.
//
// The servers are those that scripts/redis.sh has installed, or those that are installed on the machine.
package redisserver
