"""Compiled loops over ids: their bounds, each once, dealt to the servers, grouped by row.

P servers hold a table's n rows: server p the rows n p / P (rounded down) to n (p + 1) / P - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridjob.tables.jit import compiled, inlined, prefetch
from hybridjob.tables.spreading import DIGIT_BITS

_MULTIPLIER = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: Knuth's multiplicative hashing, TAOCP 3, 6.4."""

_AHEAD = 12


@inlined
def _slots_for(count: Any) -> Any:
    size = 16
    while size < 2 * count:
        size *= 2
    return size


@inlined
def _hash(number: Any, size: Any) -> Any:
    mixed = np.uint64(number) * np.uint64(_MULTIPLIER)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@inlined
def _lane(number: Any, num_lanes: Any) -> Any:
    # Other bits than those of _hash, so that a lane's ids fill its table evenly.
    mixed = (np.uint64(number) * np.uint64(_MULTIPLIER)) >> np.uint64(54)
    return np.int64((mixed * np.uint64(num_lanes)) >> np.uint64(10))


@inlined
def _server_of(number: Any, num_rows: Any, num_servers: Any) -> Any:
    return ((number + 1) * num_servers - 1) // num_rows


@compiled
def bounds_of(ids: Any) -> tuple[int, int]:
    """Give the least and the largest id of at least one."""
    low = high = ids[0]
    for number in ids:
        low, high = min(low, number), max(high, number)
    return low, high


@compiled
def spread(ids: Any, num_rows: Any, multiplier: Any, first: Any, rows: Any) -> None:
    """Fill rows, (N,) int64, with the row of each id: see hybridjob.tables.spreading."""
    # Unsigned, for a division without a look at signs.
    size, factor, bits = np.uint64(num_rows), np.uint64(multiplier), np.uint64(DIGIT_BITS)
    for place in range(len(ids)):
        number = np.uint64(ids[place])
        high = number >> bits
        low = number - (high << bits)
        carried = (high * factor % size) << bits
        rows[place] = np.int64((carried + low * factor + np.uint64(first)) % size)


@compiled
def width_of(offsets: Any) -> int:
    """Give how many ids each bag has, if all have as many, else -1."""
    if len(offsets) < 2:
        return -1
    width = offsets[1] - offsets[0]
    for bag in range(1, len(offsets) - 1):
        if offsets[bag + 1] - offsets[bag] != width:
            return -1
    return int(width)


@compiled
def distinct(ids: Any, unique: Any, places: Any) -> int:
    """Find each id once, in the order of first sight: unique (N,), of which U are filled.

    places: (N,) int32, where each id stands in unique. Returns U.
    """
    size = _slots_for(len(ids))
    table = np.full(2 * size, -1, np.int64)  # id and place in unique, side by side
    found = 0
    for place in range(len(ids)):
        if place + _AHEAD < len(ids):
            prefetch(table, 2 * _hash(ids[place + _AHEAD], size))
        number = ids[place]
        slot = _hash(number, size)
        while table[2 * slot] != number and table[2 * slot] >= 0:
            slot = (slot + 1) & (size - 1)
        if table[2 * slot] < 0:
            table[2 * slot] = number
            table[2 * slot + 1] = found
            unique[found] = number
            found += 1
        places[place] = table[2 * slot + 1]
    return found


@compiled
def deal(unique: Any, num_rows: Any, num_servers: Any, local: Any, order: Any, cuts: Any) -> None:
    """Put distinct ids, (U,), server by server, as the servers count them: local (U,).

    order: (U,) int32, where each id of unique has gone. cuts: (P + 1,) int64, zeros at first:
    server p's are local[cuts[p]:cuts[p + 1]].
    """
    for number in unique:
        cuts[_server_of(number, num_rows, num_servers) + 1] += 1
    for server in range(num_servers):
        cuts[server + 1] += cuts[server]
    filled = cuts.copy()
    for place in range(len(unique)):
        server = _server_of(unique[place], num_rows, num_servers)
        order[place] = filled[server]
        local[filled[server]] = unique[place] - num_rows * server // num_servers
        filled[server] += 1


@compiled
def deal_bags(
    ids: Any, offsets: Any, num_rows: Any, num_servers: Any, local: Any, come_from: Any,
    dealt: Any, cuts: Any,
) -> None:  # fmt: skip
    """Cut bags over the servers; within each server, order is kept.

    local: (N,), server by server, as the servers count. come_from: (N,) int32, where each stood.
    dealt: (P, B + 1) int32, each server's offsets from its first id. cuts: (P + 1,) int64, zeros.
    """
    for number in ids:
        cuts[_server_of(number, num_rows, num_servers) + 1] += 1
    for server in range(num_servers):
        cuts[server + 1] += cuts[server]
    filled = cuts.copy()
    for bag in range(len(offsets) - 1):
        for server in range(num_servers):
            dealt[server, bag] = filled[server] - cuts[server]
        for place in range(offsets[bag], offsets[bag + 1]):
            server = _server_of(ids[place], num_rows, num_servers)
            local[filled[server]] = ids[place] - num_rows * server // num_servers
            come_from[filled[server]] = place
            filled[server] += 1
    for server in range(num_servers):
        dealt[server, len(offsets) - 1] = filled[server] - cuts[server]


@compiled
def count_lanes(ids: Any, counts: Any) -> None:
    """Count the ids of each lane, up: counts (L,) int64. Equal ids share a lane."""
    for number in ids:
        counts[_lane(number, len(counts))] += 1


@compiled
def deal_lanes(
    ids: Any, offsets: Any, width: Any, weights: Any, dim: Any, base: Any, filled: Any,
    lane_ids: Any, lane_starts: Any, lane_weights: Any,
) -> None:  # fmt: skip
    """Put ids, and where the gradient of each begins, lane by lane, in order.

    Bag b's gradient begins at base + b * dim: see hybridjob.tables.pooling_kernels for bags.
    filled: (L,) int64, how far each lane is filled, and is after this. weights may be empty while
    lane_weights is not: ones then.
    """
    bags = len(offsets) - 1 if width < 0 else (len(ids) // width if width else 0)
    for bag in range(bags):
        begin = np.int64(offsets[bag]) if width < 0 else bag * width
        end = np.int64(offsets[bag + 1]) if width < 0 else begin + width
        for place in range(begin, end):
            lane = _lane(ids[place], len(filled))
            target = filled[lane]
            lane_ids[target] = ids[place]
            lane_starts[target] = base + bag * dim
            if len(lane_weights):
                lane_weights[target] = weights[place] if len(weights) else np.float32(1)
            filled[lane] += 1


@compiled
def chain(
    ids: Any, starts: Any, every: Any, unique: Any, begins: Any, following: Any, repeated: Any,
    firsts: Any,
) -> tuple[int, int]:  # fmt: skip
    """Link the places of equal ids, in order.

    ids, starts: (M,), the gradient of each begins where. unique: (M,), of which U are filled: each
    once. begins: (M,), of which U: where its first gradient begins. following: (M,) int32, for each
    place the next of the same id, -1 if there is none. repeated, firsts: (M,) int32, of which R:
    which of unique stand more than once (`every`: all), and the first place of each. Returns U, R.
    """
    size = _slots_for(len(ids))
    table = np.full(2 * size, -1, ids.dtype)  # id and place in unique, side by side
    last = np.empty(len(ids), np.int32)
    is_repeated = np.zeros(len(ids), np.bool_)
    found = repeats = 0
    for place in range(len(ids)):
        number = ids[place]
        following[place] = -1
        slot = _hash(number, size)
        while table[2 * slot] != number and table[2 * slot] >= 0:
            slot = (slot + 1) & (size - 1)
        if table[2 * slot] < 0:
            table[2 * slot] = number
            table[2 * slot + 1] = found
            unique[found] = number
            begins[found] = starts[place]
            last[found] = place
            if every:
                is_repeated[found] = True
                repeated[repeats] = found
                firsts[repeats] = place
                repeats += 1
            found += 1
        else:
            known = table[2 * slot + 1]
            if not is_repeated[known]:
                is_repeated[known] = True
                repeated[repeats] = known
                firsts[repeats] = last[known]
                repeats += 1
            following[last[known]] = place
            last[known] = place
    return found, repeats


@compiled
def mark(ids: Any, touched: Any) -> int:
    """Set touched[ids]; returns how many were not set before."""
    count = 0
    for number in ids:
        count += not touched[number]
        touched[number] = True
    return count
