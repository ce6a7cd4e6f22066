"""Linear chains as the kernels take them: the trusted form of every verb of ``inference.chain``.

Estimators and objectives make ``PackedChains`` of arrays of their own; nothing is checked twice. Sums run in
scaled probabilities with a certificate; a sequence that fails it is redone in the log domain, so every
answer is right to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.utils import check_random_state

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import (
    _chain_additive,
    _chain_log,
    _chain_moments,
    _chain_n_best,
    _chain_sample,
    _chain_scaled,
    _chain_viterbi,
)

__all__ = ["PackedChains", "shared_scores"]

# Below this a factor is too near the end of the double range for the certificate of scaled messages.
_SMALLEST_FACTOR = 1e-290

# A score that all labels of a step share, and so says nothing, costs the others their digits beyond this.
_LARGEST_SHARED = 1e5


@dataclass(frozen=True, eq=False)
class PackedChains:
    """Scores of a batch of chains, in nats, initial and final scores folded in; trusted.

    Attributes
    ----------
    unary : ndarray of shape (n_total, n_labels), dtype=float64, C-contiguous
        Below plus infinity, never NaN.
    transition : ndarray of shape (n_labels, n_labels) or (n_total, n_labels, n_labels)
        The entries of first steps, which are not moves, hold anything but NaN and plus infinity.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    first : int
        Number of the first sequence in the batch that this is a chunk of, for messages.
    """

    unary: np.ndarray
    transition: np.ndarray
    offsets: np.ndarray
    first: int = 0

    def __post_init__(self) -> None:
        # the kernels trust these shapes; a damaged estimator must not make them read elsewhere
        n_total, n_labels = self.unary.shape
        if self.transition.shape not in ((n_labels, n_labels), (n_total, n_labels, n_labels)):
            raise ValueError(
                f"transition scores have shape {self.transition.shape}, but there are {n_labels} labels."
            )
        if self.offsets[-1] != n_total:
            raise ValueError(f"offsets end at {self.offsets[-1]}, but there are {n_total} rows of scores.")

    @property
    def n_labels(self) -> int:
        return self.unary.shape[1]

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def _moves(self) -> np.ndarray:
        return self.transition if self.transition.ndim == 3 else self.transition[None]

    def narrowed(self, allowed: np.ndarray) -> PackedChains:
        """The same chains over ``allowed`` labels alone; bool of shape (n_total, n_labels)."""
        unary = np.where(allowed, self.unary, -np.inf)
        return PackedChains(unary, self.transition, self.offsets, self.first)

    def levelled(self) -> PackedChains:
        """The same distribution, without what all labels of a step share where that would cost digits.

        One outlier among the inputs may lower the scores of all labels by 1e18: sums over the sequence then no longer
        see the other steps.
        """
        unary, moves = self.unary, self.transition
        shared = shared_scores(unary.max(axis=1))
        if shared.any():
            unary = unary - shared[:, None]
        if moves.ndim == 3:
            shared = shared_scores(moves.max(axis=(1, 2)))
            if shared.any():
                moves = moves - shared[:, None, None]
        return PackedChains(unary, moves, self.offsets, self.first)

    def one(self, s: int) -> PackedChains:
        """Sequence ``s`` by itself."""
        rows = slice(self.offsets[s], self.offsets[s + 1])
        transition = self.transition[rows] if self.transition.ndim == 3 else self.transition
        n_timesteps = self.offsets[s + 1] - self.offsets[s]
        return PackedChains(self.unary[rows], transition, np.array([0, n_timesteps]), self.first + s)

    def log_partition(self) -> np.ndarray:
        """(n_sequences,); minus infinity for an infeasible sequence."""
        # forward messages alone carry no certificate: the backward pass gives it
        log_z, _, _, _, redo, _ = self._scaled_forward_backward(np.ones(self.n_sequences))
        if len(redo):
            row, log_alpha = np.empty(self.n_labels), np.empty_like(self.unary)
            _chain_log.forward(self.unary, self._moves, self.offsets, redo, row, log_alpha, log_z)
        self.raise_if_too_large(log_z)
        return log_z

    def forward_backward(
        self, weight: np.ndarray | None = None, node: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-partition and marginals, those of a sequence multiplied by its weight (n_sequences,).

        Those of labels are written to ``node`` (n_total, n_labels), where it is given.

        Returns
        -------
        log_z : ndarray of shape (n_sequences,)
            Minus infinity for an infeasible sequence, whose marginals are zero.
        node : ndarray of shape (n_total, n_labels)
        edge : ndarray
            Of the shape of ``transition``: summed over the batch, or one per step (zero at first steps).
        """
        weight = np.ones(self.n_sequences) if weight is None else weight
        log_z, node, left, right, redo, factors = self._scaled_forward_backward(weight, node)
        if self.transition.ndim == 3:
            edge = factors
            edge[:1] = 0.0
            edge[1:] *= left[:-1, :, None]
            edge[1:] *= right[1:, None, :]
        else:
            edge = factors * (left[:-1].T @ right[1:])
        if len(redo):
            work = np.empty((3, self.n_labels))
            _chain_log.forward_backward(
                self.unary, self._moves, self.offsets, redo, weight, work, node, edge, log_z
            )
        return log_z, node, edge if self.transition.ndim == 3 else edge[0]

    def forward_backward_by_sequence(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Log-partition and marginals, those of moves summed within each sequence.

        Returns
        -------
        log_z : ndarray of shape (n_sequences,)
            Minus infinity for an infeasible sequence, whose marginals are zero.
        node : ndarray of shape (n_total, n_labels)
        edge, squares : ndarray of shape (n_sequences, n_labels, n_labels)
            The marginals of moves and their squares, summed over the steps of a sequence.
        """
        edge, squares = (np.empty((self.n_sequences, self.n_labels, self.n_labels)) for _ in range(2))
        if self.transition.ndim == 3:
            log_z, node, moves = self.forward_backward()
            for s, (start, stop) in enumerate(pairwise(self.offsets)):
                edge[s], squares[s] = moves[start:stop].sum(axis=0), np.square(moves[start:stop]).sum(axis=0)
            return log_z, node, edge, squares
        log_z, node, left, right, redo, factors = self._scaled_forward_backward(np.ones(self.n_sequences))
        for out, power in ((edge, 1), (squares, 2)):
            before, after = (left, right) if power == 1 else (left**2, right**2)
            for s, (start, stop) in enumerate(pairwise(self.offsets)):
                np.matmul(before[start : stop - 1].T, after[start + 1 : stop], out=out[s])
            out *= factors**power
        for s in redo:
            rows = slice(self.offsets[s], self.offsets[s + 1])
            alone = self.one(s).with_moves_per_step().forward_backward_by_sequence()
            log_z[s], node[rows], edge[s], squares[s] = alone[0][0], alone[1], alone[2][0], alone[3][0]
        return log_z, node, edge, squares

    def tilted_marginals(
        self, gain_of: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Marginals, and marginals times what the whole labelling gains: derivatives of functions of marginals.

        Parameters
        ----------
        gain_of : callable
            From the marginals of labels to what they gain, (n_total, n_labels) each; a labelling gains their sum.

        Returns
        -------
        log_z : ndarray of shape (n_sequences,)
            Minus infinity for an infeasible sequence, whose marginals are zero.
        node, tilted_node : ndarray of shape (n_total, n_labels)
            Marginals, and expectations of the indicator of a label times the gain of the labelling.
        edge, tilted_edge : ndarray of shape (n_sequences, n_labels, n_labels) or (n_total, n_labels, n_labels)
            Of moves: summed within sequences, or per step if ``transition`` is (zero at first steps).
        """
        log_z, node, left, right, redo, factors = self._scaled_forward_backward(np.ones(self.n_sequences))
        alone = [self.one(s).with_moves_per_step().forward_backward() for s in redo]
        for s, (one_log_z, one_node, _) in zip(redo, alone, strict=True):
            log_z[s], node[self.offsets[s] : self.offsets[s + 1]] = one_log_z[0], one_node
        gain = gain_of(node)
        before, after = _additive_means(factors, left, right, gain, self.offsets)
        into = gain + after
        per_step = self.transition.ndim == 3
        shape = (len(self.unary) if per_step else self.n_sequences, self.n_labels, self.n_labels)
        edge, tilted_edge = np.zeros(shape), np.zeros(shape)
        if per_step:
            edge[1:] = factors[1:] * left[:-1, :, None] * right[1:, None, :]
            tilted_edge[1:] = edge[1:] * (before[:-1, :, None] + into[1:, None, :])
        else:
            for s, (start, stop) in enumerate(pairwise(self.offsets)):
                leave, enter = left[start : stop - 1], right[start + 1 : stop]
                edge[s] = factors[0] * (leave.T @ enter)
                tilted = (leave * before[start : stop - 1]).T @ enter
                tilted += leave.T @ (enter * into[start + 1 : stop])
                tilted_edge[s] = factors[0] * tilted
        for s, (_, _, moves) in zip(redo, alone, strict=True):
            rows = slice(self.offsets[s], self.offsets[s + 1])
            ones = np.ones((len(moves), self.n_labels))
            own = np.array([0, len(moves)])
            before[rows], after[rows] = _additive_means(moves, ones, ones, gain[rows], own)
            tilted = moves.copy()
            tilted[1:] *= before[rows][:-1, :, None] + (gain + after)[rows][1:, None, :]
            place = rows if per_step else s
            edge[place] = moves if per_step else moves.sum(axis=0)
            tilted_edge[place] = tilted if per_step else tilted.sum(axis=0)
        return log_z, node, node * (before + after), edge, tilted_edge

    def moments(
        self, step_gain: np.ndarray, move_gain: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-partition, and mean and variance of what the steps and moves of a labelling add up to.

        Parameters
        ----------
        step_gain : ndarray of shape (n_total, n_labels)
        move_gain : ndarray of shape (n_labels, n_labels) or (n_total, n_labels, n_labels)
            Those of first steps are not read.

        Returns
        -------
        log_z, mean, variance : ndarray of shape (n_sequences,)
        """
        moved = move_gain if move_gain.ndim == 3 else move_gain[None]
        log_z, mean, variance = (np.empty(self.n_sequences) for _ in range(3))
        work = np.empty((7, self.n_labels))
        _chain_moments.moments(
            self.unary, self._moves, step_gain, moved, self.offsets, work, log_z, mean, variance
        )
        return log_z, mean, variance

    def viterbi(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes (n_total,) and scores (n_sequences,) of the best labellings."""
        longest = int(np.diff(self.offsets).max())
        codes, best = np.empty(len(self.unary), dtype=np.intp), np.empty(self.n_sequences)
        work = np.empty((2, self.n_labels)), np.empty((longest, self.n_labels), dtype=np.intp)
        _chain_viterbi.viterbi(self.unary, self._moves, self.offsets, *work, codes, best)
        self.raise_if_infeasible(best)
        return codes, best

    def score_of(self, codes: np.ndarray) -> np.ndarray:
        """Score (n_sequences,) of one labelling of each sequence."""
        steps = np.arange(len(codes))
        gain = self.unary[steps, codes]
        into = np.delete(steps, self.offsets[:-1])
        if self.transition.ndim == 3:
            gain[into] += self.transition[into, codes[into - 1], codes[into]]
        else:
            gain[into] += self.transition[codes[into - 1], codes[into]]
        with np.errstate(over="ignore"):
            score = np.add.reduceat(gain, self.offsets[:-1])
        self.raise_if_too_large(score)
        return score

    def max_marginals(self) -> np.ndarray:
        """Score (n_total, n_labels) of the best labelling through each label of each step."""
        best_through = np.empty_like(self.unary)
        work = np.empty(self.n_labels, dtype=np.intp), np.empty((2, self.n_labels))
        _chain_viterbi.max_marginals(self.unary, self._moves, self.offsets, *work, best_through)
        self.raise_if_infeasible(best_through[self.offsets[:-1]].max(axis=1))
        return best_through

    def n_best(self, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per sequence the codes (n_found, n_timesteps) and scores (n_found,) of the best labellings."""
        found = []
        for s in range(self.n_sequences):
            chain = self.one(s)
            n_timesteps = len(chain.unary)
            # no more than there are labellings: what a user means by "all" should not fill the memory
            n_kept = n if n_timesteps * np.log(self.n_labels) > 40 else min(n, self.n_labels**n_timesteps)
            shape = (n_timesteps, self.n_labels, n_kept)
            codes, best = np.empty((n_kept, n_timesteps), dtype=np.intp), np.empty(n_kept)
            work = np.empty(self.n_labels, dtype=np.intp), np.empty(shape), np.empty(shape, dtype=np.intp)
            _chain_n_best.n_best(chain.unary, chain._moves, *work, codes, best)
            chain.raise_if_infeasible(best[:1])
            n_found = np.count_nonzero(best > -np.inf)
            found.append((codes[:n_found], best[:n_found]))
        return found

    def sample(self, n_samples: int, random_state: Any) -> list[np.ndarray]:
        """``n_samples`` codes (n_total,)."""
        random = check_random_state(random_state)
        row, log_alpha, log_z = np.empty(self.n_labels), np.empty_like(self.unary), np.empty(self.n_sequences)
        everything = np.arange(self.n_sequences)
        _chain_log.forward(self.unary, self._moves, self.offsets, everything, row, log_alpha, log_z)
        self.raise_if_infeasible(log_z)
        draws = []
        for _ in range(n_samples):
            codes = np.empty(len(self.unary), dtype=np.intp)
            uniform = random.random_sample(len(self.unary))
            _chain_sample.sample_backward(log_alpha, self._moves, self.offsets, uniform, row, codes)
            draws.append(codes)
        return draws

    def entropy(self) -> np.ndarray:
        """Entropy (n_sequences,) by the chain rule: nothing cancels, so small ones keep their digits."""
        result = np.empty(self.n_sequences)
        for s in range(self.n_sequences):
            chain = self.one(s).with_moves_per_step()
            log_z, node, edge = chain.forward_backward()
            chain.raise_if_infeasible(log_z)
            moved = edge[1:].reshape(-1, self.n_labels)
            result[s] = _row_entropy(node[:1])[0] + moved.sum(axis=1) @ _row_entropy(moved)
        return result

    def with_moves_per_step(self) -> PackedChains:
        """The same chains with a transition matrix of its own for every step."""
        shape = (len(self.unary), self.n_labels, self.n_labels)
        moves = np.array(np.broadcast_to(self.transition, shape), order="C")
        return PackedChains(self.unary, moves, self.offsets, self.first)

    def raise_if_infeasible(self, best: np.ndarray) -> None:
        """Raise for the first sequence whose best score (n_sequences,) is minus infinity or no number."""
        if (best == -np.inf).any():
            self._raise_infeasible(int(np.argmax(best == -np.inf)))
        self.raise_if_too_large(best)

    def raise_if_too_large(self, sums: np.ndarray) -> None:
        """Raise for the first sequence whose sum of scores (n_sequences,) left the double range."""
        if not (sums < np.inf).all():
            self._raise_too_large(int(np.argmin(sums < np.inf)))

    def _raise_too_large(self, s: int) -> None:
        raise ValueError(f"The scores of sequence {self.first + s} sum to more than double precision holds.")

    def raise_if_overflown(self) -> None:
        """Raise for a score that is NaN or plus infinity, naming its sequence and step."""
        for scores in (self.unary, self._moves if self.transition.ndim == 3 else self.unary):
            if scores.max() < np.inf:
                continue
            row = int(np.argmin((scores < np.inf).reshape(len(scores), -1).all(axis=1)))
            s = int(np.searchsorted(self.offsets, row, side="right")) - 1
            raise ValueError(
                f"The scores of sequence {self.first + s} at time step {row - self.offsets[s]} are beyond double "
                "precision: features are too large for their coefficients."
            )

    def _raise_infeasible(self, s: int) -> None:
        start, stop = self.offsets[s], self.offsets[s + 1]
        reached = self.unary[start] > -np.inf
        step = 0
        while reached.any() and step + 1 < stop - start:
            step += 1
            move = self._moves[start + step if self.transition.ndim == 3 else 0]
            reached = (reached[:, None] & (move > -np.inf)).any(axis=0) & (self.unary[start + step] > -np.inf)
        if reached.any():  # nothing is forbidden: the sum itself fell below the double range
            self._raise_too_large(s)
        raise InfeasibleSequenceError(
            f"Sequence {self.first + s} has no feasible labelling: no allowed label can be reached at time "
            f"step {step}."
        )

    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        """``exp`` of the moves, each matrix divided by its largest entry, and the log of that."""
        top = self._moves.max(axis=(1, 2))
        finite = np.where(np.isfinite(top), top, 0.0)
        factors = self._moves - finite[:, None, None]
        return np.exp(factors, out=factors), np.where(np.isfinite(top), top, -np.inf)

    def _scaled_forward_backward(
        self, weight: np.ndarray, node: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        """(log_z, node, left, right, sequences without a certificate, factors); see the kernel."""
        factors, log_factors = self._factors()
        varying = self.transition.ndim == 3
        transposed = np.empty((0, 0)) if varying else np.ascontiguousarray(factors[0].T)
        node = np.empty(self.unary.shape) if node is None else node
        left, right = (np.empty(self.unary.shape) for _ in range(2))
        log_z, certified = np.empty(self.n_sequences), np.empty(self.n_sequences, dtype=np.uint8)
        work = np.empty((2, self.n_labels))
        _chain_scaled.forward_backward(
            self.unary, factors, transposed, log_factors, self.offsets, weight, work,
            node, left, right, log_z, certified,
        )  # fmt: skip
        if ((factors < _SMALLEST_FACTOR) & (self._moves > -np.inf)).any():
            certified[:] = 0  # a move that is allowed has become one that is not
            left[:], right[:], node[:] = 0.0, 0.0, 0.0
        return log_z, node, left, right, np.flatnonzero(certified == 0), factors


def _additive_means(
    factors: np.ndarray, left: np.ndarray, right: np.ndarray, gain: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean gain up to each step, and behind it, given its label; see the kernel."""
    varying = len(factors) > 1
    transposed = np.empty((0, 0)) if varying else np.ascontiguousarray(factors[0].T)
    before, after, work = np.empty_like(gain), np.empty_like(gain), np.empty((3, gain.shape[1]))
    _chain_additive.additive_means(
        np.ascontiguousarray(factors), transposed, left, right, gain, offsets, work, before, after
    )
    return before, after


def shared_scores(top: np.ndarray) -> np.ndarray:
    """What to take off the scores of each step whose largest is ``top``."""
    return np.where(np.isfinite(top) & (np.abs(top) > _LARGEST_SHARED), top, 0.0)


def _row_entropy(mass: np.ndarray) -> np.ndarray:
    """Entropy of each row of unnormalised probabilities; 0 for a row of zeros.

    The largest entry enters through the sum of the others: close to certainty ``log(p)`` would be all rounding.
    """
    total = mass.sum(axis=1, keepdims=True)
    rest = mass / np.where(total > 0, total, 1.0)
    rest[np.arange(len(rest)), rest.argmax(axis=1)] = 0.0
    others = rest.sum(axis=1)
    return -xlogy(rest, rest).sum(axis=1) - (1 - others) * np.log1p(-others)
