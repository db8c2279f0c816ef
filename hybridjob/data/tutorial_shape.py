"""Sizes of the tutorial's data, for those who must not import numpy."""

FEATURE = "indices"
NUM_EMBEDDINGS = 100
NUM_CLASSES = 8
BATCHES_PER_EPOCH = 10
