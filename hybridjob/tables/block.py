"""All features' vectors of a batch as one leaf of autograd, and its gradient cut for the servers.

See hybridjob.tables.plan for the letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hybridjob.tables.wire import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from hybridjob.tables.plan import Plan, Slot, TrainerKernels
    from hybridjob.tables.wire import Answer

_NOTHING = -0.0
"""Adds nothing to a sum, not even a sign."""


class Block:
    """The vectors of one batch.

    leaf: (size,) float32 on the trainer's device; after backward it has the gradient.
    """

    def __init__(
        self, plan: Plan, answers: Sequence[Answer], kernels: TrainerKernels, device: torch.device
    ) -> None:
        self.plan, self._kernels = plan, kernels
        self._kept: list[list[Any]] = []
        block = self._assemble(answers)
        self.leaf = block.to(device).requires_grad_()

    def vectors(self) -> dict[str, Tensor]:
        """Cut the leaf: feature name -> (B, D), contiguous."""
        slots, bags = self.plan.slots, self.plan.batch.size
        sizes = [slot.end - slot.begin for slot in slots]
        # Not `split`: its results must not be changed in place, which a model may well do.
        parts = torch.unsafe_split_with_sizes(self.leaf, sizes)
        return {
            slot.name: part.view(bags, slot.dim) for slot, part in zip(slots, parts, strict=True)
        }

    def gradients(self, scale: float) -> list[Tensor]:
        """Give each server's gradient, times scale: (S,) float32, in the order of its question."""
        gradient = self._gradient(scale)
        plan = self.plan
        for slot in plan.slots:
            bag = plan.batch.features[slot.name]
            self._kernels.of_sums(gradient[slot.begin : slot.end], slot.dim, bag, slot.pooling)
        pooled = [gradient[slot.begin : slot.end] for slot in _runs(plan.pooled)]
        rows = [self._of_rows(number, gradient) for number in range(len(plan.tables))]
        found = []
        for server in range(len(plan.questions)):
            parts = list(pooled)
            for table, gradient_of_rows in zip(plan.tables, rows, strict=True):
                low, high = table.dealt.cuts[server : server + 2]
                parts.append(gradient_of_rows[low * table.dim : high * table.dim])
            found.append(joined(parts, torch.float32))
        return found

    def _gradient(self, scale: float) -> Tensor:
        if self.leaf.grad is None:
            return torch.zeros(self.plan.size)
        return self.leaf.grad.mul_(scale).cpu().contiguous()

    def _of_rows(self, number: int, gradient: Tensor) -> Tensor:
        table, batch = self.plan.tables[number], self.plan.batch
        total = torch.full((len(table.dealt.local) * table.dim,), _NOTHING)
        for slot, places, kept in zip(table.slots, table.places, self._kept[number], strict=True):
            part = gradient[slot.begin : slot.end]
            bag = batch.features[slot.name]
            self._kernels.unpool(part, slot.dim, places, bag, kept, total)
        return total

    def _assemble(self, answers: Sequence[Answer]) -> Tensor:
        plan = self.plan
        if not plan.tables and len(answers) == 1:
            return answers[0].sums.float()  # just what is wanted; of float32 no copy
        block = torch.empty(plan.size)
        self._place_sums([answer.sums for answer in answers], block)
        begins = [0] * len(answers)
        for table in plan.tables:
            parts = []
            for server, answer in enumerate(answers):
                low, high = table.dealt.cuts[server : server + 2]
                size = (high - low) * table.dim
                parts.append(answer.rows[begins[server] : begins[server] + size])
                begins[server] += size
            rows = parts[0] if len(parts) == 1 else torch.cat(parts)
            self._kept.append(
                [
                    self._kernels.pool(
                        rows,
                        slot.dim,
                        places,
                        plan.batch.features[slot.name],
                        slot.pooling,
                        block[slot.begin : slot.end],
                    )
                    for slot, places in zip(table.slots, table.places, strict=True)
                ]
            )
        return block

    def _place_sums(self, sums: list[Tensor], block: Tensor) -> None:
        """Put pooled vectors into their places: those of one server are finished already."""
        total = sums[0]
        for one in sums[1:]:
            total = total.add_(one)
        begin = 0
        for slot in self.plan.pooled:
            part, place = total[begin : begin + slot.end - slot.begin], block[slot.begin : slot.end]
            begin += len(part)
            if len(sums) == 1:
                place.copy_(part)
            else:
                bag = self.plan.batch.features[slot.name]
                self._kernels.finish(part, slot.dim, bag, slot.pooling, place)
                if self.plan.value_type != torch.float32:  # what one server would have sent
                    place.copy_(place.to(self.plan.value_type))


def _runs(slots: Sequence[Slot]) -> list[Slot]:
    """Join slots that lie side by side."""
    found: list[Slot] = []
    for slot in slots:
        if found and found[-1].end == slot.begin:
            last = found.pop()
            found.append(type(slot)(last.name, last.dim, last.pooling, last.begin, slot.end))
        else:
            found.append(slot)
    return found
