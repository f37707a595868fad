----------------------------- MODULE atmostonce -----------------------------
(* idem.tla with IDEMSK_EFFECTS=at-most-once (idem/atmostonce.go). began     *)
(* counts the attempts that may have had the effect.  Every error of a       *)
(* handler that is retried says that it had none.  An attempt that has begun *)
(* and not ended leads to a dead letter: its key can only be stolen.         *)
EXTENDS idem

CONSTANT TakenOver  \* how a worker knows that it has stolen such a key: "owner": it asked for it, under this owner;
                    \* "reply": the reply to the steal says so, which a request that was sent twice does not get

VARIABLES began, stole
allvars == <<vars, began, stole>>

Unended(it) == it.st = "S" /\ ~it.rel
Unknown(x)  == stole[x] /\ w[x].att > 1

(* What each worker remembers of its claim, after any step *)
Asked(x) == CASE w'[x].pc = "idle" -> FALSE
              [] OTHER -> (stole[x] \/ (w'[x].pc = "steal" /\ Unended(w'[x].seen)))
Replied(x) == CASE (w'[x].pc # "run" \/ w[x].pc = "run") -> w'[x].pc # "idle" /\ stole[x]
                [] OTHER -> w[x].pc = "steal" /\ Unended(w[x].seen) /\ OK(Msg(x, "steal"), item)
Remember == stole' = [x \in Workers |-> IF TakenOver = "owner" THEN Asked(x) ELSE Replied(x)]

Begin(x) ==
  \/ /\ ~Unknown(x) /\ Start(x)
     /\ began' = IF w'[x].pc = "running" THEN began + 1 ELSE began
  \/ /\ Unknown(x) /\ w[x].pc = "run" /\ Goto(x, "dl")
     /\ UNCHANGED <<item, net, dl, dlSent, comps, everC, bad, maxTok, execs, n, began>>
End(x) ==  \* without an effect, if it is tried again
  \/ /\ Finish(x) /\ began' = IF w'[x].pc = "release" THEN began - 1 ELSE began
  \/ /\ Interrupted(x) /\ began' = began - 1

Other(x) ==
  \/ \E r \in Records : Deliver(x, r)
  \/ Put(x) \/ Steal(x) \/ DeadLetter(x) \/ Extend(x) \/ Crash(x) \/ Abandon(x)
  \/ (~Unknown(x) /\ NotStarted(x))
  \/ Settle(x, "complete", "C", "acked") \/ Settle(x, "fail", "F", "acked")
  \/ Settle(x, "release", "S", "pending") \/ Settle(x, "unrun", "S", "pending")

AInit == Init /\ began = 0 /\ stole = [x \in Workers |-> FALSE]
ANext == /\ \/ \E x \in Workers : Begin(x) \/ End(x) \/ (Other(x) /\ UNCHANGED began)
            \/ (LandLate \/ LeaseEnds \/ TTL) /\ UNCHANGED began
         /\ Remember
ASpec == AInit /\ [][ANext]_allvars

AtMostOnce == began <= 1
=============================================================================
