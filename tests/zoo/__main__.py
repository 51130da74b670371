"""`python -m tests.zoo torchvision|transformers [filter …]`: run the zoo, print a table."""

from __future__ import annotations

import argparse
import fnmatch
import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch

from tests.zoo import report, results
from tests.zoo.check import check
from tests.zoo.subject import Case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("package", choices=["torchvision", "transformers"])
    parser.add_argument("filters", nargs="*", help="names, globs or families; none means all")
    parser.add_argument("--markdown", action="store_true", help="end with the lists for the documentation")
    parser.add_argument("--page", type=Path, help="a page to put these lists into: docs/guide/models.md")
    parser.add_argument("--verbose", action="store_true", help="also reasons and loose layers of each model")
    parser.add_argument(
        "--results", type=Path, help="keep outcomes here; what went well there is not run again"
    )
    parser.add_argument("--known", action="store_true", help="run nothing: only report what --results has")
    options = parser.parse_args()

    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched, whatever a configuration asks for
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print(report.COLUMNS, flush=True)
    known = results.read(options.results) if options.results else {}
    if not options.known:
        known = {name: outcome for name, outcome in known.items() if outcome.ok}
    outcomes = []
    for case in _chosen(_cases(options.package), options.filters):
        if case.name not in known:
            if options.known:
                continue
            gc.collect()
            gc.freeze()  # what the packages hold is not looked through again before each run
        outcome = known.get(case.name) or check(case)
        outcomes.append(outcome)
        if options.results and case.name not in known:
            results.add(options.results, outcome)
        print(report.row(outcome, verbose=options.verbose), flush=True)
    print(report.summary(outcomes))
    lists = report.markdown(options.package, outcomes)
    if options.markdown:
        print(lists)
    if options.page is not None:
        report.put_into(options.page, options.package, lists)
    return 1 if not outcomes or any(outcome.failures for outcome in outcomes) else 0


def _cases(package: str) -> Iterable[Case]:
    if package == "torchvision":
        from tests.zoo import torchvision_models

        return torchvision_models.cases()
    from tests.zoo import transformers_models

    return transformers_models.cases()


def _chosen(cases: Iterable[Case], filters: list[str]) -> list[Case]:
    return [
        case
        for case in cases
        if not filters
        or any(fnmatch.fnmatchcase(case.name, f) or fnmatch.fnmatchcase(case.family, f) for f in filters)
    ]


if __name__ == "__main__":
    sys.exit(main())
