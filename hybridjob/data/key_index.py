"""Find texts in a fixed list, many at once and exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hybridjob.data.hashing import hash_strings

if TYPE_CHECKING:
    from numpy.typing import NDArray


class KeyIndex:
    """Places of distinct texts: sorted hashes, and a comparison of the texts themselves.

    keys: arrow string array (N), no nulls. Raises ValueError naming a text that is there twice.
    """

    def __init__(self, keys: Any) -> None:
        self._keys = keys
        hashes = hash_strings(keys)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]
        same = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if len(same):
            first, second = (keys[int(self._order[same[0] + i])].as_py() for i in (0, 1))
            if first == second:
                raise ValueError(f"{first!r} is there twice")
            raise ValueError(f"{first!r} and {second!r} have the same 64-bit hash")

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, texts: Any) -> NDArray[np.int64]:
        """Give for each text (M) its place in the list, -1 for one that is not there or null."""
        if not len(self._keys) or not len(texts):
            return np.full(len(texts), -1, dtype=np.int64)
        # Most texts come again and again: look each of them up once.
        coded = texts.dictionary_encode()
        places = np.append(self._find_distinct(coded.dictionary), -1)
        numbers = coded.indices.fill_null(len(places) - 1)
        found: NDArray[np.int64] = places[numbers.to_numpy(zero_copy_only=False)]
        return found

    def _find_distinct(self, texts: Any) -> NDArray[np.int64]:
        hashes = hash_strings(texts)
        places = np.empty(len(hashes), dtype=np.int64)
        # In ascending order, one search finds in the processor's cache what the last has read.
        ascending = np.argsort(hashes)
        places[ascending] = np.searchsorted(self._hashes, hashes[ascending])
        found = self._order[np.minimum(places, len(self._hashes) - 1)]
        same = pc.equal(self._keys.take(pa.array(found)), texts)
        return np.where(same.to_numpy(zero_copy_only=False), found, -1)
