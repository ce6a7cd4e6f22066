"""Gaussian-process sequence labelling: variational, and by sampling."""

from sklearn_seqlab.gaussian_process._gp_sequence_labeler import GPSequenceLabeler
from sklearn_seqlab.gaussian_process._gp_struct_labeler import GPStructLabeler

__all__ = ["GPSequenceLabeler", "GPStructLabeler"]
