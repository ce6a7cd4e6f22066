"""Where public data comes from and what its bytes must be."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FILES", "PublicFile"]


class PublicFile(NamedTuple):
    """One file of a public data set.

    Parameters
    ----------
    sha256 : str
        Of the uncompressed bytes.
    url : str or None
        Public source of the file, or of a zip archive that holds it; None: it cannot be downloaded.
    member : str or None
        Name of the file in the archive at `url`; None: `url` is the file.
    """

    sha256: str
    url: str | None
    member: str | None = None


_RAW = "https://raw.githubusercontent.com"
_CRFPP = f"{_RAW}/taku910/crfpp/c603ea6/example"
_CONLL2000 = f"{_RAW}/nltk/nltk_data/5db857e/packages/corpora/conll2000.zip"
_UBICOMP = f"{_RAW}/tcsvn/pyadlml/58fae5fd739334b1087e018c6bfdefdde21a9781/datasets/kasteren"
_TL = f"{_RAW}/agnesvanbelle/TL/22d0103/source/source-code/data_conversion"
_GESTURES = f"{_RAW}/Fmelle/Gesture-Phase-Segmentation/78dd0d6ce1050740faf3252d6af81a9714d1dbe1/data_files"
_CAVIAR = f"{_RAW}/aartikis/RTEC/d7215f4/examples/caviar/dataset/csv"
_HOUSES = f"{_RAW}/CyriacAzefack/Frailty_Box/3df8db9/input"

# Path below the data folder -> file. In the data folder each may also be gzipped, as path + ".gz".
FILES: dict[str, PublicFile] = {
    "conll2000/test.txt": PublicFile(
        "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
        _CONLL2000,
        member="conll2000/test.txt",
    ),
    "conll2000/train.txt": PublicFile(
        "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
        _CONLL2000,
        member="conll2000/train.txt",
    ),
    "crfpp/JapaneseNE/template": PublicFile(
        "5c2735c3a4287056bbc67223443c75e926201fc1295f3be787391922933ef2bd",
        f"{_CRFPP}/JapaneseNE/template",
    ),
    "crfpp/JapaneseNE/test.data": PublicFile(
        "f8e5f52d5cb23f6744e13de9f6a9a869a47cb0687a11b90e8978b85dcba691fe",
        f"{_CRFPP}/JapaneseNE/test.data",
    ),
    "crfpp/JapaneseNE/train.data": PublicFile(
        "de24257c3c1429b6c0be60728d6b225ccc0c2274d8b76e83977549495b9c8f27",
        f"{_CRFPP}/JapaneseNE/train.data",
    ),
    "crfpp/basenp/template": PublicFile(
        "ddbd16fe5459c5d5baf10932f7d938dc5e91a52558b1bac60ecfb43f702e5d7e",
        f"{_CRFPP}/basenp/template",
    ),
    "crfpp/basenp/test.data": PublicFile(
        "b85caf6b655c5600fa638754880bb524f7c0f0c3fdfd186f9dbd7f5839231885",
        f"{_CRFPP}/basenp/test.data",
    ),
    "crfpp/basenp/train.data": PublicFile(
        "eff25bc47150895e6234d439652efa8ebd598f69da28289d9f448468a2a0cba7",
        f"{_CRFPP}/basenp/train.data",
    ),
    "crfpp/chunking/template": PublicFile(
        "7529f65974655f60293637cb4aae34a3fa486de25c567d0949bec15e5d96a76b",
        f"{_CRFPP}/chunking/template",
    ),
    "crfpp/chunking/test.data": PublicFile(
        "066c6c2ec7d276b008928401b1bd17b28c0f97cd41404f629784b3c7743b778d",
        f"{_CRFPP}/chunking/test.data",
    ),
    "crfpp/chunking/train.data": PublicFile(
        "ff9a48ed819c8c235e5f6172b1bfb39b3d65f1fab578ae80fd5396f19597a3b7",
        f"{_CRFPP}/chunking/train.data",
    ),
    "crfpp/seg/template": PublicFile(
        "0e1d4090dff7a36e0aba7438f8cbf3fd981b6c72fb9ac210efaa587fc699ddc8",
        f"{_CRFPP}/seg/template",
    ),
    "crfpp/seg/test.data": PublicFile(
        "c6d930fbf2b6f293e8b4524286e44e997188ef667d30df9318ed49b7022a34c9",
        f"{_CRFPP}/seg/test.data",
    ),
    "crfpp/seg/train.data": PublicFile(
        "f3d00c3bb22417c3df17cbbfa1b73485789987742b2899c643b78480d580d73d",
        f"{_CRFPP}/seg/train.data",
    ),
    "kasteren_tl2010/KA_activity_labels.csv": PublicFile(
        "7d510860f2b0a72fd7ae596038d1b242716e07f61f294f029c3730fdc5674b50",
        f"{_HOUSES}/KA%20House/KA_activity_labels.csv",
    ),
    "kasteren_tl2010/KA_sensor_labels.csv": PublicFile(
        "4740435a159e5d72938fda14ae47176647c5e732e767048a40f7444ddb63d2f9",
        f"{_HOUSES}/KA%20House/KA_sensor_labels.csv",
    ),
    "kasteren_tl2010/KB_activity_labels.csv": PublicFile(
        "e5dcae9e4e862fc255266b6602349dc3b24ade5a696331ff241f0992cfe3917d",
        f"{_HOUSES}/KB%20House/KB_activity_labels.csv",
    ),
    "kasteren_tl2010/KB_sensor_labels.csv": PublicFile(
        "35b3a2d9d31638028fc16618efd588610cd018a8a7026fa1f7f6857b7bb0ae4b",
        f"{_HOUSES}/KB%20House/KB_sensor_labels.csv",
    ),
    "kasteren_tl2010/KC_activity_labels.csv": PublicFile(
        "8f319878f9870b79260641ff80e9efc670549942e83511ac980e06b2b79df6eb",
        f"{_HOUSES}/KC%20House/KC_activity_labels.csv",
    ),
    "kasteren_tl2010/KC_sensor_labels.csv": PublicFile(
        "62f1f99c463db7f165b38c57da3e637053aa2ef9ab0fcbdd68e4c304272a23fd",
        f"{_HOUSES}/KC%20House/KC_sensor_labels.csv",
    ),
    "kasteren_tl2010/houseA-as.txt": PublicFile(
        "82bf17627af4b55573a48f97c62818f2024ea6cc4ed8fddd8e0b585b67c2bf03",
        f"{_TL}/houseA-as.txt",
    ),
    "kasteren_tl2010/houseA-ss.txt": PublicFile(
        "cae092c690a08b813a9beb0c744d0f05fa7da18fe00461c5e9abbcc5f24182f7",
        f"{_TL}/houseA-ss.txt",
    ),
    "kasteren_tl2010/houseB-as.txt": PublicFile(
        "3907db80ba87d2c95ae8f0d7dbf645fd0c0d8b9c760c119c5d2e1f32d8533358",
        f"{_TL}/houseB-as.txt",
    ),
    "kasteren_tl2010/houseB-ss.txt": PublicFile(
        "6664b1b3ec16e8ab0dc09c53c3dc5e6838f152d096b4063d8ae422d0fc308370",
        f"{_TL}/houseB-ss.txt",
    ),
    "kasteren_tl2010/houseC-as.txt": PublicFile(
        "82dbf7f0528bb37b6c682bdf5e954633c4e01ab4c25a8325a6fcf7012aaa7d5d",
        f"{_TL}/houseC-as.txt",
    ),
    "kasteren_tl2010/houseC-ss.txt": PublicFile(
        "6f976c1ae40068551d2b0068a74e82df1731c5cd42e793f089283daba229ea39",
        f"{_TL}/houseC-ss.txt",
    ),
    "kasteren_ubicomp2008/kasterenActData.txt": PublicFile(
        "36f600f1fa47b98b7ea332b9762a3d2a67e86beea61e315fbff763a985bfdbc2",
        f"{_UBICOMP}/kasterenActData.txt",
    ),
    "kasteren_ubicomp2008/kasterenSenseData.txt": PublicFile(
        "6c8f828a1f121eeea449e354e30964d34339de0723223619d3d2b8458fcbb24c",
        f"{_UBICOMP}/kasterenSenseData.txt",
    ),
    "mit_placelab/subject1/Activities.csv": PublicFile(
        "26571cc2a806f7fadba18d9cf9c40c0983f8f213236e8546680c0e7aeb0a012f",
        f"{_TL}/SUBJ1/Activities.csv",
    ),
    "mit_placelab/subject1/activities_data.csv": PublicFile(
        "f2ca6e9867501156757913f9ab1143d0aa9700bf3126d603b84d07283dcd62cc",
        f"{_TL}/SUBJ1/activities_data.csv",
    ),
    "mit_placelab/subject1/sensors.csv": PublicFile(
        "e12a78adfc4cc2d7cc8f957c8d2b04af4900aca50b1cad1e23bad2ae82def11a",
        f"{_TL}/SUBJ1/sensors.csv",
    ),
    "mit_placelab/subject2/Activities.csv": PublicFile(
        "a09ba4d2037d91721da21287ca564de23887c22644f91f5ff71e42972f7aa5c1",
        f"{_TL}/SUBJ2/Activities.csv",
    ),
    "mit_placelab/subject2/activities_data.csv": PublicFile(
        "64f9a487a981a8d192d566bef7c3f73f66c144870e244ce581228aa96e45abde",
        f"{_TL}/SUBJ2/activities_data.csv",
    ),
    "mit_placelab/subject2/sensors.csv": PublicFile(
        "af8669a3cec98c1cd8d00acbbab55790ac5933ede7db77c47e091f6ae0334f5d",
        f"{_TL}/SUBJ2/sensors.csv",
    ),
    "caviar_rtec/appearance.csv": PublicFile(
        "0568a42c9544b9aeba5b3173f9b8f49cfba0ce5ae1c0db5f9e5c62087bd381d3",
        f"{_CAVIAR}/appearance.csv",
    ),
    "caviar_rtec/movementB.csv": PublicFile(
        "d55be8532264c5f1aaceda80e6555e1bcb661970eb9f900867ad6e8b88e0531b",
        f"{_CAVIAR}/movementB.csv",
    ),
    "gesture_phase/a1_raw.csv": PublicFile(
        "83012e2caf7d7d31733a3048e2051ea39f88793832d7c126a8e3b9565f4750e1",
        f"{_GESTURES}/raw/a1_raw.csv",
    ),
    "gesture_phase/a1_va3.csv": PublicFile(
        "a9caf290dbf9c0ba112b273a3af2377c2ba061d25ba7eeab835e32552f66747d",
        f"{_GESTURES}/processed/a1_va3.csv",
    ),
    "gesture_phase/a2_raw.csv": PublicFile(
        "bfc8cf68484638088c34fdb6f902daefb3df8eab90a00754b19ad0f90ee61d3a",
        f"{_GESTURES}/raw/a2_raw.csv",
    ),
    "gesture_phase/a2_va3.csv": PublicFile(
        "3f921cab6fc8395b26ec772874583fe4eb211e15f856b6bfb45627cf4620fa48",
        f"{_GESTURES}/processed/a2_va3.csv",
    ),
    "gesture_phase/a3_raw.csv": PublicFile(
        "7aa269527b1e7a7262e9d8b0e8a8763ca20016792a24920ee10a5a02cde3a2b5",
        f"{_GESTURES}/raw/a3_raw.csv",
    ),
    "gesture_phase/a3_va3.csv": PublicFile(
        "0ef1ae696b179eccfdfc85cdaf6abcf83ff95209060e94185d0b9dfbbed765d3",
        f"{_GESTURES}/processed/a3_va3.csv",
    ),
    "gesture_phase/b1_raw.csv": PublicFile(
        "d57a2a3da1dfc00e0bcb0c6b5bc2b4746a0992e3a3dea0aec4bc370360d17a7a",
        f"{_GESTURES}/raw/b1_raw.csv",
    ),
    "gesture_phase/b1_va3.csv": PublicFile(
        "fc530377ccf5da9fb8d82df04806d853afe988cc3dfead00608696a4a321875b",
        f"{_GESTURES}/processed/b1_va3.csv",
    ),
    "gesture_phase/b3_raw.csv": PublicFile(
        "9a437133ef5464526f42f5e505897518aa51781d165fe5291ee85389d87b32ff",
        f"{_GESTURES}/raw/b3_raw.csv",
    ),
    "gesture_phase/b3_va3.csv": PublicFile(
        "011a99aa42d984a9ad5f31e191fd6b9f6c4e72ae75c63e804c5e8905b896d115",
        f"{_GESTURES}/processed/b3_va3.csv",
    ),
    "gesture_phase/c1_raw.csv": PublicFile(
        "ddf0cda9a0f721a1db55ece244f6ee82bfceb53b85dc613563a5fb921ad1bf2d",
        f"{_GESTURES}/raw/c1_raw.csv",
    ),
    "gesture_phase/c1_va3.csv": PublicFile(
        "4f4fe22b7839f696ee0fa8cd50aa6ae8082224db6ddb0767c5d405aa3d98ea42",
        f"{_GESTURES}/processed/c1_va3.csv",
    ),
    "gesture_phase/c3_raw.csv": PublicFile(
        "ac3eb37659fc91dbead9b11ed18ebb999be4d533ac46e94e39d7b01ace4a1602",
        f"{_GESTURES}/raw/c3_raw.csv",
    ),
    "gesture_phase/c3_va3.csv": PublicFile(
        "032dd63b2a5ca1a0b21bfa3feae06cc09bb9f9cf2d4254c621f87cfff3186c42",
        f"{_GESTURES}/processed/c3_va3.csv",
    ),
    # Text and features of the CRF++ tasks; the archives are kept as they are published, in gzip form.
    "gpstruct_nlp/basenp.tar": PublicFile(
        "9104b9b6b02794f963def74a2bbae91b461c2e92e21aa08230f7ffcd80814c23",
        None,
    ),
    "gpstruct_nlp/chunking.tar": PublicFile(
        "7315486ac7ec48e9cfc113347dfb80bb0f543a67849555fcdb4de5d46294bc15",
        None,
    ),
    "gpstruct_nlp/japanesene.tar": PublicFile(
        "50ea3017f5ecce5afed9079c6395a0a549327fb3b1849107abce003feb467848",
        None,
    ),
    "gpstruct_nlp/segmentation.tar": PublicFile(
        "de70a2007acb1b4eb095a2f71ae8ab831b4ecab8708c7c5b920fcabd8988635d",
        None,
    ),
    "gpstruct_nlp/datasplit.n_data=100.txt": PublicFile(
        "42b282b5088b8858dedd8a2b2af4fc28ea14cab0ae34dd45e7d8ceff83a48178",
        None,
    ),
    "gpstruct_nlp/datasplit.n_data=300.txt": PublicFile(
        "b292d13741f695c27b65737b85202738357791eb2e4830a1320f42d4bc1c4911",
        None,
    ),
    "gpstruct_nlp/datasplit.n_data=36.txt": PublicFile(
        "a2a771a746b0f16cb59dfa3c3e6ef72dbc37590c7172756c36775b929f559d02",
        None,
    ),
    # No public address holds this text form.
    "ocr_letters/letters.txt": PublicFile(
        "9d43ffda9b7c76fc6a1b8699a5900eb81f38a46ded0da6255644756905ffb778",
        None,
    ),
}
