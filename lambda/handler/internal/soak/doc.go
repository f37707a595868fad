// Package soak holds the soak test of the example function: it delivers many records with faults to one
// process, and checks that each was booked once and that the process does not grow. It has no code of its
// own.
package soak
