"""Simulators with a known truth, and fetchers of public data."""

from sklearn_seqlab.datasets._caviar import fetch_caviar
from sklearn_seqlab.datasets._conll2000 import fetch_conll2000
from sklearn_seqlab.datasets._crfpp import fetch_crfpp
from sklearn_seqlab.datasets._gesture_phase import fetch_gesture_phase
from sklearn_seqlab.datasets._gpstruct_nlp import fetch_gpstruct_nlp
from sklearn_seqlab.datasets._kasteren import fetch_kasteren
from sklearn_seqlab.datasets._kitchen_rfid import make_kitchen_rfid
from sklearn_seqlab.datasets._kitchen_trajectories import make_kitchen_trajectories
from sklearn_seqlab.datasets._mit_placelab import fetch_mit_placelab
from sklearn_seqlab.datasets._ocr_letters import fetch_ocr_letters
from sklearn_seqlab.datasets._smart_home import make_smart_home

__all__ = [
    "fetch_caviar",
    "fetch_conll2000",
    "fetch_crfpp",
    "fetch_gesture_phase",
    "fetch_gpstruct_nlp",
    "fetch_kasteren",
    "fetch_mit_placelab",
    "fetch_ocr_letters",
    "make_kitchen_rfid",
    "make_kitchen_trajectories",
    "make_smart_home",
]
