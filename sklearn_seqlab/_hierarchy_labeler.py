"""The prediction half of every estimator whose labels form segments or a hierarchy of segments."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab import _parallel
from sklearn_seqlab._arguments import check_numerics, one_of
from sklearn_seqlab._level_labeler import LevelLabeler
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.objectives import (
    Chunk,
    HierarchyShape,
    Level,
    assemble_cliques,
    check_known,
    choose_engine,
    duration_curve,
    hierarchy_doubles_per_step,
    linear_scores,
    make_engine,
    narrow_by,
    too_large,
)
from sklearn_seqlab.sequences import (
    UNSEEN,
    LevelCodes,
    PackedBatch,
    encode_levels,
    label_table,
    segments_of,
)

__all__ = ["HierarchyLabeler", "duration_scores"]

Segment = tuple[Any, ...]


class HierarchyLabeler(LevelLabeler, metaclass=ABCMeta):
    """Decodes hierarchies of segments; a subclass learns them.

    A subclass has the parameters ``decoding``, ``numerics`` and ``n_jobs``, and assigns what
    ``_hierarchy_fit.HierarchyFit`` finds.
    """

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.missing_labels = True
        tags.target_tags.candidate_sets = True
        tags.target_tags.flat_segments = self._is_single
        tags.likelihood = tags.segments = tags.boundaries = True
        tags.regularisation = "C"
        return tags

    def predict(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Label every time step.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y_observed : list or None, default=None
            What is known already, in any form that ``fit`` takes; None in place of a whole sequence if nothing
            is. Known labels come back exactly, and the rest is the best completion.

        Returns
        -------
        y : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps,) per sequence, or (n_timesteps, n_levels) if ``fit`` saw labels of
            that shape.

        Raises
        ------
        InfeasibleSequenceError
            If no segmentation fits what is known.
        ValueError
            If ``X`` is not as in ``fit``, or ``y_observed`` holds an unknown label.

        Notes
        -----
        ``decoding="marginal"`` takes the most probable label of each step and level by itself, which maximises
        the expected number of right steps; together these may be a labelling of probability zero.
        """
        decoding = one_of(self.decoding, ("map", "marginal"), "decoding")
        batch, known = self._pack_known(X, y_observed)
        if decoding == "map":
            states = self._map_chunks(batch, known, lambda engine: engine.viterbi()[0])
        else:
            states = self._map_chunks(batch, known, self._likeliest_states)
        return batch.unpack(self._labels_of(np.concatenate(states, axis=1)))

    def predict_segments(self, X: Any, y_observed: Any = None) -> list[list[Segment]]:
        """The segments of the most probable configuration, whatever ``decoding`` says.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        segments : list of n_sequences lists of (level, start, stop, label)
            Half open, level by level from the top (0), in order of time. :class:`SemiCRF`, which knows no other
            level, leaves it out: ``(start, stop, label)``; :class:`HSCRFClassifier` never does.
        """
        batch, known = self._pack_known(X, y_observed)
        parts = self._map_chunks(batch, known, lambda engine: engine.viterbi()[:2])
        x, e = (np.concatenate([part[k] for part in parts], axis=1) for k in (0, 1))
        top, classes = self._shape().top_level, self._level_classes()
        found: list[list[Segment]] = [[] for _ in range(batch.n_sequences)]
        for k, own in enumerate(classes):
            cut = segments_of(x[top + k], e[top + k], batch.offsets)
            sequence, labels = cut.sequence.tolist(), own[cut.code].tolist()
            for s, *segment in zip(sequence, cut.start.tolist(), cut.stop.tolist(), labels, strict=True):
                found[s].append(tuple(segment) if self._is_single else (k, *segment))
        return found

    def predict_boundary_proba(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Probability that a segment ends with each step, given the whole sequence.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps,) per sequence, or (n_timesteps, n_levels) as ``predict``.
        """
        batch, known = self._pack_known(X, y_observed)
        ends = np.concatenate(self._map_chunks(batch, known, lambda engine: engine.boundaries()), axis=1)
        ends = np.clip(ends[self._shape().top_level :], 0.0, 1.0)
        ends[:, batch.offsets[1:] - 1] = 1.0
        if known is not None:
            ends = np.where(known.ends < 0, ends, known.ends)
        return batch.unpack(ends[0] if self._is_flat else np.ascontiguousarray(ends.T))

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of what is known of the labels and boundaries given the inputs.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list
            In any form that ``fit`` takes. The probabilities of all segmentations that fit are summed.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats; minus infinity where a label was not seen in ``fit`` or nothing fits, 0 where nothing is
            known.

        Raises
        ------
        ValueError
            If what ``y`` says contradicts itself, as an end within a segment.
        """
        batch = self._pack(X)
        known = self._encode(y, batch.offsets, name="y", unseen="mark")
        narrow = narrow_by(known, self._shape())

        def work(engine: Any, start: int, stop: int) -> np.ndarray:
            log_z = engine.log_partition()
            engine.raise_if_infeasible(log_z)
            fits = engine.narrowed(*narrow(start, stop)).log_partition() - log_z
            lost = 4 * np.finfo(float).eps * np.abs(log_z) > 1e-3 * np.maximum(1.0, -fits)
            if lost.any():
                raise too_large(engine.cliques.number + int(np.argmax(lost)))
            return fits

        # rounding may leave a difference of equal sums above zero
        return np.minimum(np.concatenate(self._map_chunks(batch, None, work, with_rows=True)), 0.0)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Micro accuracy over the labelled steps.

        Parameters
        ----------
        X : list of array-like of shape (n_timesteps, n_features)
        y : list
            In any form that ``fit`` takes; what is not labelled is left out.
        sample_weight : array-like of shape (n_sequences,), default=None

        Returns
        -------
        score : float
        """
        level: Any = getattr(self, "score_level", "all")
        batch = self._pack(X)
        known = self._encode(y, batch.offsets, name="y", unseen="mark")
        found = [rows if rows.ndim == 2 else rows[:, None] for rows in self.predict(X)]
        classes = self._level_classes()
        predicted = [
            np.column_stack([np.searchsorted(c, rows[:, k].astype(c.dtype)) for k, c in enumerate(classes)])
            for rows in found
        ]
        chosen = None if level == "all" else level
        return micro_accuracy_score(_code_tables(known), predicted, level=chosen, sample_weight=sample_weight)

    def _level_marginals(self, X: Any, y_observed: Any) -> list[np.ndarray]:
        batch, known = self._pack_known(X, y_observed)
        shape = self._shape()
        nodes = np.concatenate(self._map_chunks(batch, known, self._node_marginals))
        np.clip(nodes, 0.0, 1.0, out=nodes)
        if known is not None:  # differences of sums leave a rounding where nothing is allowed
            nodes[~narrow_by(known, shape)(0, batch.n_total)[0]] = 0.0
        return [batch.unpack(nodes[:, shape.nodes(d)]) for d, _ in shape.labelled()]

    def _draw(self, batch: PackedBatch, n_samples: int, seeds: np.ndarray) -> list[np.ndarray]:
        def work(engine: Any, start: int, stop: int) -> list[np.ndarray]:
            s = int(np.searchsorted(batch.offsets, start))
            return [x for x, _ in engine.sample(n_samples, int(seeds[s]))]

        parts = self._map_chunks(batch, None, work, with_rows=True)
        draws = [np.concatenate([part[k] for part in parts], axis=1) for k in range(n_samples)]
        return [self._labels_of(x) for x in draws]

    @property
    def _is_single(self) -> bool:
        """Whether segments are given without their level."""
        return False

    @property
    def _is_flat(self) -> bool:
        """Whether labels are one-dimensional."""
        return bool(self._structure["is_flat"])

    def _level_classes(self) -> list[np.ndarray]:
        return self.classes_

    def _transition_masks(self) -> list[np.ndarray]:
        """Allowed transitions by level below the root, (n_labels above, n_labels, n_labels)."""
        return list(self.transition_mask_)

    def _shape(self) -> HierarchyShape:
        """Levels and topology, from the fitted attributes."""
        kept, classes = self._structure, self._level_classes()
        levels = [Level(**spec) for spec in kept["levels"]]
        if len(levels) != len(classes) or (self._is_flat and len(classes) > 1):
            raise ValueError(
                f"classes_ has {len(classes)} levels, but the model was fitted with another number."
            )
        if not kept["has_root"]:
            levels = [Level(1), *levels]
        for k, own in enumerate(classes):
            if levels[len(levels) - len(classes) + k].n_states != len(own):
                raise ValueError(f"Level {k} has {len(own)} classes, but was fitted with another number.")
        children = list(self.children_)
        if not kept["has_root"]:
            children = [np.ones((1, len(classes[0])), dtype=bool), *children]
        return HierarchyShape(
            tuple(levels), children, self._transition_masks(), kept["persists"], kept["has_root"]
        )

    def _pack_known(self, X: Any, y_observed: Any) -> tuple[PackedBatch, LevelCodes | None]:  # type: ignore[override]
        batch = self._pack(X)
        if y_observed is None:
            return batch, None
        known = self._encode(y_observed, batch.offsets, name="y_observed")
        check_known(known, self._shape(), name="y_observed")
        return batch, known

    def _encode(self, y: Any, offsets: np.ndarray, **options: Any) -> LevelCodes:
        kept = self._structure
        options.setdefault("classes", self._level_classes())
        return encode_levels(
            y,
            offsets,
            n_levels=len(self._level_classes()),
            root=kept["has_root"],
            segment_bottom=kept["persists"],
            self_transitions=tuple(kept["self_transitions"]),
            flat_segments=self._is_single,
            **options,
        )

    def _labels_of(self, x: np.ndarray) -> np.ndarray:
        """States (n_levels, n_rows) as labels, (n_rows,) or (n_rows, n_labelled_levels)."""
        top, classes = self._shape().top_level, self._level_classes()
        columns = [own[x[top + k]] for k, own in enumerate(classes)]
        return columns[0] if self._is_flat else label_table(columns)

    def _likeliest_states(self, engine: Any) -> np.ndarray:
        nodes, shape = self._node_marginals(engine), self._shape()
        x = np.zeros((shape.n_levels, len(nodes)), dtype=np.intp)
        for d in range(shape.n_levels):
            x[d] = nodes[:, shape.nodes(d)].argmax(axis=1)
        return x

    @staticmethod
    def _node_marginals(engine: Any) -> np.ndarray:
        log_z, shares, _ = engine.forward_backward()
        engine.raise_if_infeasible(log_z)
        return shares.step

    def _map_chunks(
        self,
        batch: PackedBatch,
        known: LevelCodes | None,
        work: Callable[..., Any],
        with_rows: bool = False,
    ) -> list[Any]:
        """``work`` on the engine of each chunk of sequences, on ``n_jobs`` threads."""
        check_numerics(self.numerics)
        shape = self._shape()
        name = self._structure["engine"]
        one_of(name, ("chain", "mixed", "aio"), "The engine of a fitted model")
        choose_engine(shape, name)
        node, tables = shape.unblock(self.coef_, batch.n_features)
        by_feature = np.ascontiguousarray(node.T)
        any_coef = {d: node[place].T for kind, d, place in shape.columns if kind == "any"}
        narrow = None if known is None else narrow_by(known, shape)

        def task(bound: tuple[int, int]) -> Any:
            first, last = bound
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            values = batch.values[start:stop] if any_coef else None
            chunk = Chunk(values, batch.offsets[first : last + 1] - start, first)
            scores = linear_scores(batch.values, by_feature, start, stop)
            cliques = assemble_cliques(shape, scores, any_coef, tables, chunk).levelled()
            cliques.raise_if_overflown(keep_digits=True)
            engine = make_engine(name, cliques, self.numerics)
            if narrow is not None:
                engine = engine.narrowed(*narrow(start, stop))
            return work(engine, start, stop) if with_rows else work(engine)

        doubles = hierarchy_doubles_per_step(shape, int(batch.lengths.max()))
        bounds = _parallel.chunk_bounds(batch.offsets, doubles)
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            return _parallel.run(task, bounds, self.n_jobs)


def duration_scores(level: Level, blocks: dict[str, Any], k: int, longest: int) -> np.ndarray:
    """What a level scores durations from one step up, inputs apart.

    Parameters
    ----------
    level : Level
    blocks : dict
        ``coef_`` of an estimator.
    k : int
        The level's place in the lists of ``blocks``.
    longest : int
        How many durations to give where the level sets no limit.

    Returns
    -------
    scores : ndarray of shape (n_durations, n_states)
        In nats.
    """
    n_durations = longest if level.max_duration is None else level.max_duration
    weights, bias, segment_bias = (
        blocks[name][k] if name in blocks else None for name in ("duration", "bias", "segment_bias")
    )
    scores = duration_curve(level, weights, n_durations)
    if bias is not None:
        scores = scores + np.arange(1, n_durations + 1)[:, None] * bias
    return scores if segment_bias is None else scores + segment_bias


def _code_tables(known: LevelCodes) -> list[np.ndarray]:
    """Codes (n_timesteps, n_levels) per sequence: one beyond all where unseen, None where not wholly known."""
    columns = []
    for level in known.levels:
        column = np.empty(len(level.codes), dtype=object)
        stated = (level.codes >= 0) | (level.codes == UNSEEN)
        column[stated] = np.where(level.codes >= 0, level.codes, level.n_labels)[stated].tolist()
        columns.append(column)
    table = np.column_stack(columns)
    return [table[a:b] for a, b in zip(known.offsets[:-1], known.offsets[1:], strict=True)]
