-- Takes ID from the queue of a latch. Returns 0: it holds nothing.
forget(ID)
return 0
