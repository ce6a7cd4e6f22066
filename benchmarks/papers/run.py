"""Compute tables of the papers and write them to RESULTS.md.

    python benchmarks/papers/run.py ua                        everything of one table
    python benchmarks/papers/run.py ua --rows LinearChainCRF  one row again, the others as they were
    python benchmarks/papers/run.py ua --write-only           the table from the stored scores

Real data is looked up as the fetchers do: in the folder SKLEARN_SEQLAB_DATA, else downloaded.
"""

from __future__ import annotations

import argparse

import boosting
import durations
import gaussian
import gpstruct
import kitchen
import mit
import noun_phrases
import ocr
import placelab
import planted
import rfid
import segments
import strengths
import ua
import ua_days

TABLES = {
    "ua": ua,
    "ua_days": ua_days,
    "boosting": boosting,
    "durations": durations,
    "gaussian": gaussian,
    "gpstruct": gpstruct,
    "kitchen": kitchen,
    "mit": mit,
    "noun_phrases": noun_phrases,
    "ocr": ocr,
    "placelab": placelab,
    "planted": planted,
    "rfid": rfid,
    "segments": segments,
    "strengths": strengths,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rows", nargs="+", help="rows to compute (all)")
    parser.add_argument(
        "--inputs",
        nargs="+",
        help="inputs to compute (all; tables ua, gaussian, gpstruct, kitchen and segments; folds of ocr)",
    )
    parser.add_argument("--windows", nargs="+", help="windows to compute (all; table ua)")
    parser.add_argument("--deals", type=int, default=5, help="how many random deals or random states (5)")
    parser.add_argument("--first-deal", type=int, default=0, help="deal to begin with (0)")
    parser.add_argument("--folds", type=int, default=100, help="folds of a deal (all)")
    parser.add_argument("--days", nargs="+", type=int, help="days to train on (all; table planted)")
    parser.add_argument("--n-jobs", type=int, default=2, help="processes of the grid searches (2)")
    parser.add_argument("--write-only", action="store_true", help="compute nothing")
    options = parser.parse_args()
    table = TABLES[options.table]
    if not options.write_only:
        table.run(options)
    table.write()


if __name__ == "__main__":
    main()
