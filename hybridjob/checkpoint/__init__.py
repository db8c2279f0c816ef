"""Checkpoints: a folder a step that exists whole or not at all.

Servers and trainers write their files in parallel into a hidden folder; the master then writes the
manifest, which lists every file with its size and hash, and renames the folder to its name.
"""
