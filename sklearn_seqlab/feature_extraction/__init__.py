"""Features of tokens (dictionaries, names, hashes and CRF++ templates to CSR matrices), and relational patterns."""

from sklearn_seqlab.feature_extraction._dict import SequenceDictVectorizer
from sklearn_seqlab.feature_extraction._hasher import SequenceHasher
from sklearn_seqlab.feature_extraction._relational import RelationalPatternMiner
from sklearn_seqlab.feature_extraction._templates import FeatureTemplates
from sklearn_seqlab.feature_extraction._tokens import TokenFeatures, word_shape

__all__ = [
    "FeatureTemplates",
    "RelationalPatternMiner",
    "SequenceDictVectorizer",
    "SequenceHasher",
    "TokenFeatures",
    "word_shape",
]
