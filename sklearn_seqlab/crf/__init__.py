"""Conditional random fields whose labels form chains."""

from sklearn_seqlab.crf._linear_chain import LinearChainCRF

__all__ = ["LinearChainCRF"]
