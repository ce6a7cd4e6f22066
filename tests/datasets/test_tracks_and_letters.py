from collections import Counter

import numpy as np
import pytest

from sklearn_seqlab.datasets import fetch_caviar, fetch_gesture_phase, fetch_ocr_letters


def test_gesture_phases(data_home):
    videos = fetch_gesture_phase(data_home=data_home)
    assert sum(map(len, videos.data)) == 9873 and len(videos.data) == 12
    assert videos.groups.tolist() == ["a1", "a1", "a2", "a3", "a3", "b1", "b1", "b3", "c1", "c1", "c3", "c3"]
    assert Counter(np.concatenate(videos.target).tolist()) == {
        "Stroke": 2950,
        "Rest": 2741,
        "Preparation": 2097,
        "Retraction": 1087,
        "Hold": 998,
    }
    both = fetch_gesture_phase(inputs="both", data_home=data_home)
    raw = fetch_gesture_phase(inputs="raw", data_home=data_home)
    assert np.array_equal(np.hstack([videos.data[3], raw.data[3]]), both.data[3])
    assert len(both.feature_names) == len(set(both.feature_names)) == 50
    # Speed is the length of the velocity beside it in the file.
    velocity = videos.data[0][:, :3]
    speed = videos.data[0][:, videos.feature_names.index("speed of left hand")]
    assert np.allclose(np.linalg.norm(velocity, axis=1), speed, rtol=0.02, atol=1e-4)


def test_gesture_inputs_must_be_known():
    with pytest.raises(ValueError, match="inputs must be"):
        fetch_gesture_phase(inputs="video")


def test_tracks_of_people(data_home):
    tracks = fetch_caviar(data_home=data_home)
    assert len(tracks.data) == 145 and sum(map(len, tracks.data)) == 45626
    assert sum(len(x) >= 50 for x in tracks.data) == 132
    assert sum(len(set(y)) >= 2 for y in tracks.target) == 70
    assert Counter(np.concatenate(tracks.target).tolist()) == {
        "walking": 29042,
        "inactive": 9829,
        "active": 5358,
        "running": 807,
        "abrupt": 590,
    }
    assert tracks.data[0][0].tolist() == [262, 285, 0]
    assert (np.diff(tracks.groups) >= 0).all()


def test_letters(data_home):
    words = fetch_ocr_letters(data_home=data_home)
    assert len(words.data) == 6877 and sum(map(len, words.data)) == 52152
    assert np.bincount(words.groups).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    assert "".join(words.target[0]) == "ommanding"
    assert words.data[0].shape == (9, 128) and set(np.unique(words.data[0])) == {0.0, 1.0}
    assert len({"".join(y) for y in words.target}) == 55
    X, y = fetch_ocr_letters(data_home=data_home, return_X_y=True)
    assert np.array_equal(X[1], words.data[1]) and y[1].tolist() == words.target[1].tolist()


def test_letters_cannot_be_downloaded(no_data):
    with pytest.raises(FileNotFoundError, match=r"letters\.txt.*none that can be downloaded"):
        fetch_ocr_letters()
