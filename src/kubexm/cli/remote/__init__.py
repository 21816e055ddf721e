"""`kubexm --server`: the same verbs, carried out by a server. Nothing here plans or runs anything, or draws it: what a
server tells is handed to the displays every run has."""
