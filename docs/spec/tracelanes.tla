----------------------------- MODULE tracelanes -----------------------------
(* Is what lanes were observed to do a behaviour of batch.tla?  Traces, a    *)
(* module that scripts/trace.sh writes, is a sequence of traces: the lanes   *)
(* of several invocations on one store, and the calls of the store and the   *)
(* ends of handlers in the order in which they took effect                   *)
(* (idem/trace_test.go).  Each is a step of the model, or changes               *)
(* nothing.  ok is FALSE after an event that is neither.                     *)
EXTENDS Naturals, Sequences, FiniteSets, Traces

CONSTANTS Inv, Keys, Lanes, Poison, Ahead, Refund, MaxAttempts

VARIABLES t, i, ok, lane, key, pc, runs, dead
vars == <<lane, key, pc, runs, dead>>

Model == INSTANCE batch
Trace == Traces[t]
None == [x \in Inv |-> <<>>]

Init == /\ t \in DOMAIN Traces /\ i = 0 /\ ok = TRUE
        /\ lane = [p |-> Traces[t].p, q |-> Traces[t].q, r |-> Traces[t].r]
        /\ key = [k \in Keys |-> Model!Free] /\ pc = [x \in Inv |-> "go"] /\ runs = [k \in Keys |-> 0] /\ dead = {}

(* After an answer "in flight" the key was not claimed again at once. If it  *)
(* is that of the first record, the lane waits for it.                       *)
Later(e) == IF Model!IsFirst(e.inv, e.key) /\ Model!Held(e.inv) # {} THEN Model!Wait(e.inv) ELSE UNCHANGED vars

Observed(e) ==
  CASE e.op = "claimed"  -> Model!Claim(e.inv, e.key) /\ key'[e.key].att = e.att
    [] e.op = "inFlight" -> Model!Taken(e.key) /\ key[e.key].own # e.inv /\ UNCHANGED vars
    [] e.op = "later"    -> Later(e)
    [] e.op = "settled"  -> Model!Final(e.key) /\ key[e.key].st = e.st /\ UNCHANGED vars
    [] e.op = "return"   -> Model!Return(e.inv, e.key, e.fails)
    [] e.op = "settle"   -> Model!Settle(e.inv, e.key) /\ key'[e.key].st = e.st /\ key'[e.key].att = e.att
    [] e.op = "refund" -> Model!Drop(e.inv, e.key) /\ key'[e.key].att = e.att
    [] e.op = "end"      -> Model!Held(e.inv) = {} /\ UNCHANGED vars
    [] OTHER             -> FALSE

Next == /\ ok /\ i < Len(Trace.events)
        /\ i' = i + 1 /\ t' = t
        /\ LET e == Trace.events[i + 1]
           IN IF ENABLED Observed(e) THEN Observed(e) /\ ok' = TRUE ELSE ok' = FALSE /\ UNCHANGED vars

Spec == Init /\ [][Next]_<<t, i, ok, vars>>

Explained == ok
NoUnrunDead == Model!NoUnrunDead
=============================================================================
