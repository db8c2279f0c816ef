"""Hashing that is vectorised, and the same on every machine and in every run.

mix(x) is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
Generators, 2014). The hash of a text is over its UTF-8 bytes: cut into little-endian 64-bit words,
the last one padded with zeros, h = mix(length), then h = mix(h XOR word) for each word.
A hashed feature's id is that hash modulo num_embeddings. Neither may ever change: trained tables
depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_WORD = 8
_CHUNK = 1 << 15
# _KEEP[n] keeps the first n bytes of a little-endian word.
_KEEP = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter 64-bit values, each alone; a bijection."""
    mixed = values + np.uint64(_GOLDEN)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def hash_numbers(*numbers: int) -> int:
    """Hash a few whole numbers into one of 64 bits, in order."""
    state = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        state = mix(state ^ np.uint64(number & _MASK))
    return int(state[0])


def hash_strings(strings: Any) -> NDArray[np.uint64]:
    """Hash each text of an arrow string array (N) into (N,) uint64; null hashes as empty text."""
    if pa.types.is_large_string(strings.type) or pa.types.is_large_binary(strings.type):
        offset_type: type[np.signedinteger[Any]] = np.int64
    else:
        offset_type = np.int32
    count = len(strings)
    _, offset_buffer, data_buffer = strings.buffers()
    if count == 0:
        return np.zeros(0, dtype=np.uint64)
    offsets = np.frombuffer(offset_buffer, dtype=offset_type)
    offsets = offsets[strings.offset : strings.offset + count + 1].astype(np.int64)
    words = _words(data_buffer, int(offsets[0]), int(offsets[-1]))
    hashes = np.empty(count, dtype=np.uint64)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    # A piece at a time, so that the passes over it stay in the processor's cache.
    for low in range(0, count, _CHUNK):
        piece = slice(low, low + _CHUNK)
        hashes[piece] = _hash_piece(words, starts[piece], ends[piece] - starts[piece])
    if strings.null_count:
        hashes[strings.is_null().to_numpy(zero_copy_only=False)] = mix(np.zeros(1, np.uint64))[0]
    return hashes


def _words(buffer: Any, first: int, last: int) -> NDArray[np.uint64]:
    """Give for every byte from first to last the word that begins there, zeros behind the end."""
    padded = np.zeros(last - first + _WORD, dtype=np.uint8)
    if last > first:
        padded[: last - first] = np.frombuffer(buffer, dtype=np.uint8)[first:last]
    return np.ndarray(shape=(last - first + 1,), dtype="<u8", buffer=padded.data, strides=(1,))


def _hash_piece(
    words: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    hashes = mix(lengths.astype(np.uint64))
    longest = int(lengths.max())
    for done in range(0, longest, _WORD):
        if lengths.min() > done:
            left = np.minimum(lengths - done, _WORD)
            hashes = mix(hashes ^ (words[starts + done] & _KEEP[left]))
            continue
        chosen = np.flatnonzero(lengths > done)
        left = np.minimum(lengths[chosen] - done, _WORD)
        hashes[chosen] = mix(hashes[chosen] ^ (words[starts[chosen] + done] & _KEEP[left]))
    return hashes
