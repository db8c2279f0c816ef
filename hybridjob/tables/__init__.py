"""Embedding tables: their shards, optimizers, servers, and the trainers' side."""
