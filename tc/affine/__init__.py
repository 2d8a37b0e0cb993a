"""The algebra of index expressions: affine forms, intervals, boxes, and what these decide."""
