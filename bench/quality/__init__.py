"""How well search answers: nDCG, reciprocal rank and recall, through the real flow and the real search."""
