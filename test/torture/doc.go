// Package torture holds the torture test of the consumer process: processes on a real Kafka that are killed,
// paused, ended and started at random, while the broker is restarted. It has no code of its own.
//
// A short run, with the seed in TORTURE_SEED, found these mutants:
//
//	mutant                                                        found by                                              seed
//	a commit passes the first unsettled record                    records that were booked 0 times, offsets moved back  7
//	a lane handles its last item first                            the order of a Kafka key                              7
//	two lanes for one Kafka key                                   the order of a Kafka key                              8
//	a completion of a former owner is accepted (PostgreSQL)       a record that was booked 2 times                      9
//	a record that failed counts as settled                        records that were booked 0 times                      8
//	an offset is committed before a record of it is settled       offsets moved back                                    8
package torture
